-- No new row of a forgotten key may begin at or below this token.
UPDATE dblock_state SET token_floor = max(token_floor, :token)
