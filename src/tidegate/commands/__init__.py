"""One file per thing a user does to a table. Commands take values and return values; doors call them."""
