SELECT :wall
