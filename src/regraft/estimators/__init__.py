"""scikit-learn estimators, audits, comparisons, saved models and their cards."""
