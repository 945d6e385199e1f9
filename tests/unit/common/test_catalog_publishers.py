"""Who may publish, as the catalog counts it."""

from typing import Any

from libs.common.resources import Catalog, Kind, Resource, ResourceStatus

NAME = ("integration", "orders.v1")


def exposure(*publishers: str, deleted: bool = False) -> Resource:
    first, *more = publishers
    spec = {"eventType": "orders.v1", "publisherId": first, "additionalPublisherIds": more}
    return document(Kind.EXPOSURE, "orders.v1", spec, deleted=deleted)


def subscription(name: str, publisher: str) -> Resource:
    spec = {
        "subscriptionId": name,
        "subscriberId": name,
        "publisherId": publisher,
        "type": "orders.v1",
        "deliveryType": "callback",
    }
    return document(Kind.SUBSCRIPTION, name, spec)


def document(
    kind: Kind, resource_id: str, spec: dict[str, Any], *, deleted: bool = False
) -> Resource:
    return Resource(
        kind=kind,
        environment="integration",
        id=resource_id,
        version=1,
        created_at="",
        updated_at="",
        owner="",
        spec=spec,
        status=ResourceStatus(deleted=deleted),
    )


def test_publishers_of_exposure_and_subscriptions_are_united() -> None:
    catalog = Catalog()
    catalog.apply("e", exposure("shop", "backup"))
    catalog.apply("s", subscription("s", "legacy"))
    assert catalog.publishers(*NAME) == {"shop", "backup", "legacy"}


def test_a_publisher_stays_while_one_document_names_it() -> None:
    catalog = Catalog()
    catalog.apply("e", exposure("shop"))
    catalog.apply("s1", subscription("s1", "shop"))
    catalog.apply("s2", subscription("s2", "shop"))
    catalog.apply("e", None)
    catalog.apply("s1", None)
    assert catalog.publishers(*NAME) == {"shop"}
    catalog.apply("s2", None)
    assert catalog.publishers(*NAME) == set()
    assert not catalog.is_known(*NAME)


def test_a_changed_or_deleted_exposure_takes_its_old_publishers_away() -> None:
    catalog = Catalog()
    catalog.apply("e", exposure("shop"))
    catalog.apply("e", exposure("new"))
    assert catalog.publishers(*NAME) == {"new"}
    catalog.apply("e", exposure("new", deleted=True))
    assert catalog.publishers(*NAME) == set()


def test_a_subscription_that_names_no_publisher_permits_nobody() -> None:
    catalog = Catalog()
    catalog.apply("s", subscription("s", ""))
    assert catalog.publishers(*NAME) == set()
    assert catalog.is_known(*NAME)
