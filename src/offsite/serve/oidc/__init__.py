"""Login at an identity provider (OpenID Connect), beside tokens: see decision 0087."""
