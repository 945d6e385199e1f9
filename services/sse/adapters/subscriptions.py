"""Subscriptions from the table `resources`."""

from libs.common.resources import Catalog, Subscription


class CatalogSubscriptions:
    """`Subscriptions` from a catalog that follows the table."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def get(self, subscription_id: str) -> Subscription | None:
        """As the port says."""
        return self._catalog.subscriptions.get(subscription_id)
