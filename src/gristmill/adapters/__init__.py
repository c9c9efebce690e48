"""Stage 7: one foreign library each.

In: a Loader, a Plan or a store.
Out: what that library's training loop takes: tensors, data sets, data modules.
Promise: translation only; order, resume and reading are those of the loader.
"""
