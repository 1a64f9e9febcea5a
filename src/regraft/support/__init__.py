"""Leaves that everything else stands on: files, records, tables, extras, progress."""
