"""The scikit-learn face: thin estimators and functions over algorithms, engine and storage."""
