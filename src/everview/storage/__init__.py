"""The files of a store: runs, traces, manifests, the lock, compaction, backups."""
