"""The contenders, one small class a file; `registry` lists them without importing any."""
