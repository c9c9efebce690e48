"""The package that holds `functional`."""
