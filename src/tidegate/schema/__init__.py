"""The columns of a table, as data: types and their JSON and Arrow forms, mapping, widening, constraints.

Nothing here reads or writes a table. Every function takes frozen values and returns frozen values;
what a column's metadata demands (a generation expression, an identity, a default) is extracted, not
executed. Answers the sections "Schema Serialization Format" and "Column Mapping" of the protocol.
"""
