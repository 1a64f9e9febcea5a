"""scikit-learn faces, audits, comparisons, saved models and their cards."""
