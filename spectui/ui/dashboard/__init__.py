"""The side panel: its pages of figures, and the devices."""
