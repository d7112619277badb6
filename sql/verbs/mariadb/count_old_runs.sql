SELECT COUNT(*) FROM {old_runs}
