"""What a run leaves on the disk, and what reads it.

Written: `record` (settings, surroundings, history, result), `curves` (for TensorBoard), `checkpoint`, under the lock of
`alone`. Read: `reading` (one run in whatever state), `listing` (many side by side), `reproduction` (was it the same?).
"""
