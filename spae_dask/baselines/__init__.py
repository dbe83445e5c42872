"""Other people's sparse PCA, to be compared with: truncated power, generalised power, and their deflations."""
