"""The table `resources`, asked for one event type."""

from libs.common.kafka.table import CompactedTable
from libs.common.resources import Catalog, Resource
from services.producer.domain.stored import Registration


class CatalogRegistry:
    """Answers from memory. `catalog` follows `table`, both within the event loop."""

    def __init__(self, table: CompactedTable[Resource], catalog: Catalog) -> None:
        self._table = table
        self._catalog = catalog

    def registration(self, environment: str, event_type: str) -> Registration:
        """The type's standing at the offset that the table has reached."""
        return Registration(
            resources_offset=self._table.position,
            is_known=self._catalog.is_known(environment, event_type),
            has_subscribers=self._catalog.has_subscribers(environment, event_type),
            publishers=self._catalog.publishers(environment, event_type),
        )
