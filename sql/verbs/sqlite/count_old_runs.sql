SELECT count(*) FROM {old_runs}
