"""Labelled features from files: tables, banks, image folders, example problems."""
