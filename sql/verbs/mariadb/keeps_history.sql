SELECT {keeps_history}
