"""Who may read a table and who may write it: versions, features, and how a table comes by them.

``protocol`` is the value and its algebra, ``feature`` what a feature and a registry of them are,
``delta`` the registry of Delta's features, ``negotiate`` the protocol of a new or altered table.
"""
