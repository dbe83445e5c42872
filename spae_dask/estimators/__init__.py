"""The scikit-learn face: thin estimators and functions over strategies, engine and storage."""
