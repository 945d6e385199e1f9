"""The catalog of exposures and subscriptions, as documents come and go."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.common.records import DeliveryType, encode
from libs.common.resources import (
    Catalog,
    Kind,
    Placement,
    Resource,
    ResourceStatus,
    decode_resource,
    resource_key,
    subscription_of,
)

ENVIRONMENT = "integration"
TYPE = "orders.v1"


def document(
    kind: Kind = Kind.SUBSCRIPTION,
    resource_id: str = "s1",
    *,
    environment: str = ENVIRONMENT,
    version: int = 1,
    status: ResourceStatus | None = None,
    **spec: Any,
) -> Resource:
    given_spec = {
        "subscriptionId": resource_id,
        "subscriberId": "client",
        "publisherId": "shop",
        "type": TYPE,
        "eventType": TYPE,
        "deliveryType": "callback",
        **spec,
    }
    return Resource(
        kind=kind,
        environment=environment,
        id=resource_id,
        version=version,
        created_at="",
        updated_at="",
        owner="team",
        spec=given_spec,
        status=status or ResourceStatus(incarnation=version),
    )


def key_of(resource: Resource) -> str:
    return resource_key(resource.kind, resource.environment, resource.id)


def catalog_of(*resources: Resource) -> Catalog:
    catalog = Catalog()
    for resource in resources:
        catalog.apply(key_of(resource), resource)
    return catalog


def ids_of(catalog: Catalog, event_type: str = TYPE, environment: str = ENVIRONMENT) -> set[str]:
    return {found.id for found in catalog.subscriptions_of(environment, event_type)}


def everything(catalog: Catalog) -> tuple[Any, ...]:
    """All that can be asked of a catalog, for comparisons."""
    names = [(environment, t) for environment in ("integration", "other") for t in ("a", "b")]
    return (
        dict(catalog.subscriptions),
        dict(catalog.faults),
        [sorted(ids_of(catalog, t, environment)) for environment, t in names],
        [catalog.is_known(*name) for name in names],
        [catalog.has_subscribers(*name) for name in names],
        [set(catalog.publishers(*name)) for name in names],
    )


def test_a_subscription_is_found_by_id_and_by_type() -> None:
    catalog = catalog_of(document())
    assert catalog.subscriptions["s1"].spec.subscriber_id == "client"
    assert ids_of(catalog) == {"s1"}
    assert catalog.has_subscribers(ENVIRONMENT, TYPE)
    assert catalog.is_known(ENVIRONMENT, TYPE)


def test_environments_and_types_are_kept_apart() -> None:
    catalog = catalog_of(document(), document(resource_id="s2", environment="other"))
    assert ids_of(catalog) == {"s1"}
    assert ids_of(catalog, environment="other") == {"s2"}
    assert not catalog.is_known(ENVIRONMENT, "orders.v2")


def test_an_exposure_makes_a_type_known_without_giving_it_subscribers() -> None:
    catalog = catalog_of(document(Kind.EXPOSURE, TYPE))
    assert catalog.is_known(ENVIRONMENT, TYPE)
    assert not catalog.has_subscribers(ENVIRONMENT, TYPE)


def test_a_rover_itself_is_nothing_that_events_need() -> None:
    catalog = catalog_of(document(Kind.ROVER, "shop", eventType=1))
    assert not catalog.is_known(ENVIRONMENT, TYPE)
    assert catalog.faults == {}


def test_a_newer_document_replaces_the_older_under_its_old_type_as_well() -> None:
    catalog = catalog_of(document(), document(version=2, type="orders.v2"))
    assert ids_of(catalog) == set()
    assert ids_of(catalog, "orders.v2") == {"s1"}
    assert catalog.subscriptions["s1"].version == 2
    assert not catalog.is_known(ENVIRONMENT, TYPE)


@pytest.mark.parametrize("kind", [Kind.SUBSCRIPTION, Kind.EXPOSURE])
@pytest.mark.parametrize("deleted", [True, False])
def test_a_tombstone_and_a_deleted_document_remove_a_resource(kind: Kind, deleted: bool) -> None:
    catalog = catalog_of(document(kind))
    gone = document(kind, status=ResourceStatus(deleted=True)) if deleted else None
    catalog.apply(f"{kind}/{ENVIRONMENT}/s1", gone)
    assert everything(catalog) == everything(Catalog())
    assert not catalog.is_known(ENVIRONMENT, TYPE)


def test_removing_what_is_not_there_changes_nothing() -> None:
    catalog = catalog_of(document())
    catalog.apply("subscription/integration/s2", None)
    assert ids_of(catalog) == {"s1"}


@pytest.mark.parametrize(
    "fault",
    [
        {"deliveryType": "pigeon"},
        {"subscriberId": 7},
        {"subscriberId": None},
        {"delivery": {"concurrency": "many"}},
        {"retryableStatusCodes": "503"},
        {"eventRetentionTime": "2d"},
    ],
)
def test_a_malformed_document_disables_that_resource_alone(fault: dict[str, Any]) -> None:
    catalog = catalog_of(document(), document(resource_id="s2"), document(version=2, **fault))
    assert ids_of(catalog) == {"s2"}
    assert set(catalog.faults) == {"subscription/integration/s1"}
    assert catalog.faults["subscription/integration/s1"]


def test_a_placement_on_a_topic_that_does_not_exist_is_malformed() -> None:
    status = ResourceStatus(placements=[Placement(after=1, retention_class="2d")])
    assert set(catalog_of(document(status=status)).faults) == {"subscription/integration/s1"}


def test_a_fault_goes_when_the_document_is_mended_or_removed() -> None:
    catalog = catalog_of(document(deliveryType="pigeon"), document())
    assert catalog.faults == {}
    assert ids_of(catalog) == {"s1"}
    catalog.apply("subscription/integration/s1", document(deliveryType="pigeon"))
    catalog.apply("subscription/integration/s1", None)
    assert everything(catalog) == everything(Catalog())


def test_two_documents_with_one_id_do_not_take_each_other_away() -> None:
    first, second = document(), document(environment="other")
    catalog = catalog_of(first, second)
    catalog.apply(key_of(first), None)
    assert catalog.subscriptions["s1"].environment == "other"
    catalog.apply(key_of(second), None)
    assert everything(catalog) == everything(Catalog())


def test_nothing_is_kept_of_what_is_gone() -> None:
    documents = [
        document(),
        document(version=2, type="orders.v2", additionalPublisherIds=["till"]),
        document(Kind.EXPOSURE, TYPE),
        document(Kind.EXPOSURE, TYPE, eventType="orders.v2", publisherId="till"),
        document(resource_id="s2", deliveryType="pigeon"),
    ]
    catalog = catalog_of(*documents)
    for gone in documents:
        catalog.apply(key_of(gone), None)
    assert vars(catalog) == vars(Catalog())


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2"]),
        st.sampled_from([Kind.SUBSCRIPTION, Kind.EXPOSURE]),
        st.sampled_from(["integration", "other"]),
        st.sampled_from(["a", "b", "broken", None]),
        st.sampled_from(["shop", "till"]),
    ),
    max_size=25,
)


@given(CHANGES)
def test_only_the_latest_document_of_each_key_counts(
    changes: list[tuple[str, Kind, str, str | None, str]],
) -> None:
    catalog, latest = Catalog(), dict[str, Resource | None]()
    for name, kind, environment, event_type, publisher in changes:
        key = resource_key(kind, environment, f"{environment}-{name}")
        made = document(
            kind,
            f"{environment}-{name}",
            environment=environment,
            type=7 if event_type == "broken" else event_type,
            eventType=7 if event_type == "broken" else event_type,
            publisherId=publisher,
        )
        latest.pop(key, None)
        latest[key] = made if event_type is not None else None
        catalog.apply(key, latest[key])
    fresh = catalog_of(*(resource for resource in latest.values() if resource is not None))
    assert everything(catalog) == everything(fresh)


def test_the_newest_placement_decided_before_the_event_counts() -> None:
    placements = [
        Placement(after=-1, retention_class="7d"),
        Placement(after=10, retention_class="1h"),
        Placement(after=20, retention_class="1d"),
    ]
    found = subscription_of(document(status=ResourceStatus(placements=placements)))
    classes = {at: found.placement_at(at).retention_class for at in (-1, 0, 10, 11, 20, 21, 99)}
    assert classes == {-1: "7d", 0: "7d", 10: "7d", 11: "1h", 20: "1h", 21: "1d", 99: "1d"}


def test_an_event_older_than_all_placements_goes_to_the_oldest() -> None:
    placements = [Placement(after=10, retention_class="1h"), Placement(after=20)]
    found = subscription_of(document(status=ResourceStatus(placements=placements)))
    assert found.placement_at(3).retention_class == "1h"


def test_without_placements_the_retention_of_the_spec_counts() -> None:
    found = subscription_of(document(eventRetentionTime="3d"))
    assert found.placement_at(0).retention_class == "3d"
    assert subscription_of(document()).placement_at(0).retention_class == "7d"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("callback", DeliveryType.CALLBACK),
        ("CALLBACK", DeliveryType.CALLBACK),
        ("server_sent_event", DeliveryType.SERVER_SENT_EVENT),
    ],
)
def test_a_delivery_type_may_be_spelt_either_way(text: str, meant: DeliveryType) -> None:
    assert subscription_of(document(deliveryType=text)).delivery_type is meant


def test_a_document_survives_the_table_and_has_to_stand_under_its_own_key() -> None:
    resource = document()
    assert decode_resource(key_of(resource), encode(resource)) == resource
    with pytest.raises(msgspec.ValidationError, match="does not belong"):
        decode_resource("subscription/other/s1", encode(resource))


@pytest.mark.parametrize("value", [b"", b"{}", b'{"kind":"dragon"}', b"[" * 5_000, b"\xff"])
def test_what_is_no_document_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_resource("subscription/integration/s1", value)
