-- Notes a forgotten row's token: the grants of new rows must get higher tokens.
UPDATE dblock_state SET token_floor = max(token_floor, :token)
