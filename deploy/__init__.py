"""How Meridian is deployed."""
