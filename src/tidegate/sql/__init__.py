"""Delta's statements in SQL: parsed here, each handed to the command that exists already."""
