"""The development issuer: gives any client a token, under Keycloak's paths.

For one machine only. Whoever has the platform's client secret is whoever they say they are.
"""
