"""Helpers that everything else uses: files, records, tables, extras, progress."""
