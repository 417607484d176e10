"""Small widgets that the other rooms are built from."""
