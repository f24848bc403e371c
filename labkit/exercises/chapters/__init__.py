"""The declarations of the exercises, one module a notebook, each with a `CHAPTER`."""
