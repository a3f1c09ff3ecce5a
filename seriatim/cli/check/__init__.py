"""`seriatim check`: whether a file of settings is right, or a broker well."""
