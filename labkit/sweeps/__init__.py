"""One notebook, many parameters: `labkit sweep` runs it once for each set of them. Chapter 10 reads this.

`parameters`: which sets there are. `plan`: what is kept on the disk, so that a sweep can go on. `one_run`: one of the
runs, in a process of its own. `running`: several at a time. `results`: what came of them.
"""
