"""Every setting: name, type, limits, default, and where its value came from.

`settings` and its `*_settings` are the one table. `catalog` knows their paths, flags and variables;
`sources` and `resolve` which place wins; `checks` and its kind what must fit together; `tables`,
`user_tables` and `permission_tables` listeners, feeds and users. `security_warnings` says what of
them is insecure. `store_directory` is where the journal is by default.
"""
