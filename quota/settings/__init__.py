"""All settings: their sections, where they are loaded from, and their form for each client."""

from quota.settings.loading import load_settings
from quota.settings.model import Settings

__all__ = ["Settings", "load_settings"]
