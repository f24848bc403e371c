"""What a run leaves on the disk: its record, its checkpoints, and the lock of the process that works on it."""
