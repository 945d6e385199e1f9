"""What a Rover changes: only differences are written, and nobody else's things."""

from collections.abc import Callable
from typing import Any

import pytest

from libs.common.errors import Conflict, Forbidden, NotAvailable, PreconditionFailed
from libs.common.ids import ClientId, subscription_id
from libs.common.resources import Kind, Resource, subscription_of
from services.control.domain import answers, change, wishes
from services.control.domain.draft import Draft, expired
from tests.unit.control.rovers import (
    CLIENT,
    ENVIRONMENT,
    EXPOSURE,
    SUBSCRIPTION,
    Table,
    rover,
    subscription,
)

TYPE = "orders.created.v1"
BOTH = rover(exposures=[EXPOSURE], subscriptions=[SUBSCRIPTION])


@pytest.fixture
def table() -> Table:
    return Table()


def id_of(client: str = CLIENT, event_type: str = TYPE) -> str:
    return subscription_id(environment=ENVIRONMENT, event_type=event_type, subscriber_id=client)


def found(table: Table, client: str = CLIENT, event_type: str = TYPE) -> Resource:
    return table.rows[f"subscription/{ENVIRONMENT}/{id_of(client, event_type)}"]


def exposure_keys(table: Table) -> set[str]:
    return {key for key in table.rows if key.startswith("exposure/")}


def removed(table: Table, kind: Kind, resource_id: str) -> Draft:
    draft = table.draft()
    change.remove(draft, change.existing(draft, kind, ENVIRONMENT, resource_id))
    table.store(draft)
    return draft


def test_every_document_of_a_change_has_the_offset_at_which_it_stands_as_version(
    table: Table,
) -> None:
    table.end = 40
    draft = table.draft()
    change.put_rover(draft, ENVIRONMENT, wishes.rover(BOTH))
    assert [resource.version for resource in draft.writes.values() if resource] == [40, 41, 42]
    assert draft.end == 43


def test_the_stored_subscription_is_what_the_other_services_read(table: Table) -> None:
    table.put(
        rover(
            exposures=[EXPOSURE],
            subscriptions=[subscription(delivery={"concurrency": 3, "retry": {"on5xx": True}})],
        )
    )
    read = subscription_of(found(table))
    assert (read.spec.subscriber_id, read.spec.publisher_id) == (CLIENT, "")
    assert read.spec.type == TYPE
    assert read.delivery_type == "CALLBACK"
    assert read.spec.callback == SUBSCRIPTION["callback"]
    assert read.spec.delivery.concurrency == 3
    assert read.spec.delivery.retry.on5xx is True
    assert read.incarnation == read.version


STREAM = {"eventType": TYPE, "deliveryType": "SSE"}
BY_STREAM = rover(subscriptions=[STREAM])
BY_CALLBACK = rover(subscriptions=[SUBSCRIPTION])


def test_a_stored_stream_is_read_as_one_and_has_no_callback(table: Table) -> None:
    table.put(BY_STREAM)
    read = subscription_of(found(table))
    assert read.delivery_type == "SERVER_SENT_EVENT"
    assert read.spec.callback is None


def test_the_answer_names_the_path_of_a_stream_or_the_callback(table: Table) -> None:
    table.put(BY_STREAM)
    stream = answers.subscription(found(table))
    assert stream["stream"] == f"/v1/{ENVIRONMENT}/sse/{id_of()}"
    assert "callback" not in stream
    other = Table()
    other.put(BY_CALLBACK)
    view = answers.subscription(found(other))
    assert view["callback"] == SUBSCRIPTION["callback"]
    assert "stream" not in view


@pytest.mark.parametrize(("before", "after"), [(BY_CALLBACK, BY_STREAM), (BY_STREAM, BY_CALLBACK)])
def test_a_subscription_that_exists_keeps_its_delivery_type(
    table: Table, before: dict[str, Any], after: dict[str, Any]
) -> None:
    table.put(before)
    draft = table.draft()
    with pytest.raises(NotAvailable) as refused:
        change.put_rover(draft, ENVIRONMENT, wishes.rover(after))
    [violation] = refused.value.violations
    assert violation.pointer == "/spec/subscriptions/0/deliveryType"
    assert "Take the subscription out of the file and apply it" in violation.detail
    assert draft.writes == {}


def test_a_subscription_that_was_taken_out_comes_back_with_another_delivery_type(
    table: Table,
) -> None:
    table.put(BY_CALLBACK)
    table.put(rover())
    table.put(BY_STREAM)
    read = subscription_of(found(table))
    assert read.delivery_type == "SERVER_SENT_EVENT"
    assert read.incarnation == read.version


def test_a_single_subscription_keeps_its_delivery_type_too(table: Table) -> None:
    def wished(delivery_type: str) -> wishes.SubscriptionWish:
        return wishes.SubscriptionWish(
            event_type=TYPE,
            subscriber_id=ClientId("a--b--c"),
            zone="",
            settings={"deliveryType": delivery_type},
        )

    draft = table.draft()
    change.put_subscription(draft, ENVIRONMENT, wished("callback"))
    table.store(draft)
    with pytest.raises(NotAvailable) as refused:
        change.put_subscription(table.draft(), ENVIRONMENT, wished("server_sent_event"))
    assert [violation.pointer for violation in refused.value.violations] == ["/deliveryType"]


def test_the_same_rover_again_writes_nothing(table: Table) -> None:
    table.put(BOTH)
    draft = table.draft()
    change.put_rover(draft, ENVIRONMENT, wishes.rover(BOTH))
    assert draft.writes == {}


def test_only_what_differs_is_written_and_keeps_its_incarnation(table: Table) -> None:
    table.put(BOTH)
    created = found(table)
    table.put(
        rover(exposures=[EXPOSURE], subscriptions=[subscription(callback="https://b.example/")])
    )
    updated = found(table)
    assert table.rows[f"exposure/{ENVIRONMENT}/{TYPE}"].version == 0
    assert updated.version > created.version
    assert updated.status.incarnation == created.status.incarnation
    assert updated.created_at == created.created_at


def test_what_a_rover_no_longer_names_is_removed(table: Table) -> None:
    table.put(BOTH)
    table.put(rover(exposures=[], subscriptions=[]))
    assert exposure_keys(table) == set()
    assert found(table).status.deleted


def test_what_was_removed_by_hand_comes_back_with_the_unchanged_rover(table: Table) -> None:
    written = table.put(BOTH)
    removed(table, Kind.EXPOSURE, TYPE)
    again = table.put(BOTH)
    assert len(exposure_keys(table)) == 1
    assert again.version == written.version


def test_a_rover_is_removed_with_all_that_it_made(table: Table) -> None:
    table.put(BOTH)
    removed(table, Kind.ROVER, "shop")
    assert [key for key, row in table.rows.items() if not row.status.deleted] == []


def test_a_subscription_that_is_made_again_is_new_but_keeps_the_old_placements(
    table: Table,
) -> None:
    table.put(rover(subscriptions=[subscription(eventRetentionTime="1h")]))
    first = found(table)
    removed(table, Kind.ROVER, "shop")
    table.put(rover(subscriptions=[subscription(eventRetentionTime="7d")]))
    second = found(table)
    assert second.status.incarnation == second.version > first.version
    assert [entry.retention_class for entry in second.status.placements] == ["1h", "7d"]
    assert second.status.placements[1].after == second.version
    read = subscription_of(second)
    assert read.placement_at(second.version).retention_class == "1h"
    assert read.placement_at(second.version + 1).retention_class == "7d"


def test_a_deleted_subscription_is_forgotten_after_eight_days(table: Table) -> None:
    table.put(BOTH)
    removed(table, Kind.ROVER, "shop")
    table.pass_days(7.9)
    assert expired(table.draft().snapshot, most=10).writes == {}
    table.pass_days(0.2)
    draft = expired(table.draft().snapshot, most=10)
    assert list(draft.writes.values()) == [None]


def test_forgetting_is_done_in_bounded_pieces(table: Table) -> None:
    entries = [subscription(eventType=f"orders.v{number}") for number in range(5)]
    table.put(rover(subscriptions=entries))
    removed(table, Kind.ROVER, "shop")
    table.pass_days(9)
    assert len(expired(table.draft().snapshot, most=3).writes) == 3


def test_a_second_owner_of_an_event_type_is_refused_and_told_the_first(table: Table) -> None:
    table.put(BOTH)
    with pytest.raises(Conflict, match="eni--orders--shop"):
        table.put(rover(name="other", exposures=[EXPOSURE]))


def test_a_refused_rover_changes_nothing(table: Table) -> None:
    table.put(BOTH)
    before = dict(table.rows)
    with pytest.raises(Conflict):
        table.put(rover(name="other", exposures=[{"eventType": "free.v1"}, EXPOSURE]))
    assert table.rows == before


def test_an_event_type_is_free_again_once_its_owner_gave_it_up(table: Table) -> None:
    table.put(rover(exposures=[EXPOSURE]))
    table.put(rover(exposures=[]))
    table.put(rover(name="other", exposures=[EXPOSURE]))
    assert table.rows[f"exposure/{ENVIRONMENT}/{TYPE}"].owner == "eni--orders--other"


def test_removing_a_rover_leaves_a_type_that_another_client_took_over(table: Table) -> None:
    table.put(rover(exposures=[EXPOSURE]))
    removed(table, Kind.EXPOSURE, TYPE)
    table.put(rover(name="other", exposures=[EXPOSURE]))
    removed(table, Kind.ROVER, "shop")
    assert exposure_keys(table) == {f"exposure/{ENVIRONMENT}/{TYPE}"}


def test_a_rover_s_name_belongs_to_the_first_team(table: Table) -> None:
    table.put(rover())
    with pytest.raises(Conflict, match="eni--orders--shop"):
        table.put(rover(team="eni--billing"))


def test_environments_do_not_see_each_other(table: Table) -> None:
    table.put(BOTH)
    draft = table.draft()
    other = rover(name="other", exposures=[EXPOSURE])
    change.put_rover(draft, "playground", wishes.rover(other))
    assert len(draft.writes) == 2


def test_a_type_that_nobody_exposes_is_noticed(table: Table) -> None:
    table.put(rover(subscriptions=[SUBSCRIPTION]))
    [notice] = change.notices(table.draft(), ENVIRONMENT, [TYPE])
    assert TYPE in notice
    table.put(rover(name="other", exposures=[EXPOSURE]))
    assert change.notices(table.draft(), ENVIRONMENT, [TYPE]) == []


ZONED = {**EXPOSURE, "visibility": "zone"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            rover(exposures=[ZONED]),
            rover(name="abroad", zone="aws", subscriptions=[SUBSCRIPTION]),
        ),
        (
            rover(name="abroad", zone="aws", subscriptions=[SUBSCRIPTION]),
            rover(exposures=[ZONED]),
        ),
    ],
)
def test_a_type_limited_to_a_zone_has_no_subscribers_outside_whoever_came_first(
    table: Table, first: dict[str, Any], second: dict[str, Any]
) -> None:
    table.put(first)
    with pytest.raises(Conflict, match=r"zone caas only.*eni--orders--abroad"):
        table.put(second)


def test_subscribers_of_the_same_zone_may_have_a_type_limited_to_it(table: Table) -> None:
    table.put(rover(exposures=[ZONED]))
    table.put(rover(name="neighbour", subscriptions=[SUBSCRIPTION]))
    assert found(table, "eni--orders--neighbour").spec["type"] == TYPE


@pytest.mark.parametrize("if_match", ['"99"', "*garbage", 'W/"2"', '"98", "99"'])
def test_a_change_for_another_version_is_refused(table: Table, if_match: str) -> None:
    table.put(BOTH)
    with pytest.raises(PreconditionFailed, match='"2"'):
        change.put_rover(table.draft(), ENVIRONMENT, wishes.rover(rover()), if_match=if_match)


@pytest.mark.parametrize("if_match", ['"2"', '"1", "2"', "*"])
def test_a_change_for_this_version_is_made(table: Table, if_match: str) -> None:
    table.put(BOTH)
    draft = table.draft()
    change.put_rover(draft, ENVIRONMENT, wishes.rover(rover()), if_match=if_match)
    assert len(draft.writes) == 3


def test_no_version_matches_what_does_not_exist(table: Table) -> None:
    with pytest.raises(PreconditionFailed):
        change.put_rover(table.draft(), ENVIRONMENT, wishes.rover(BOTH), if_match="*")


def wish(**fields: Any) -> wishes.SubscriptionWish:
    return wishes.SubscriptionWish(
        event_type=TYPE, subscriber_id=ClientId("a--b--c"), zone="", settings={}, **fields
    )


@pytest.mark.parametrize(
    "fields", [{"publisher_id": "a--b--c"}, {"additional_publisher_ids": ("a--b--c",)}]
)
def test_a_subscriber_cannot_make_itself_a_publisher(fields: dict[str, Any]) -> None:
    with pytest.raises(Forbidden):
        change.check_publisher(wish(**fields))
    change.check_publisher(wish())


@pytest.mark.parametrize(
    ("caller", "is_admin", "is_allowed"),
    [(CLIENT, False, True), ("root", True, True), ("other", False, False)],
)
def test_only_the_owner_and_administrators_may(
    caller: str, is_admin: bool, is_allowed: bool
) -> None:
    def check() -> None:
        change.check_caller(caller, CLIENT, is_admin=is_admin)

    assert passes(check) is is_allowed


def passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except Forbidden:
        return False
    return True


def test_an_answer_says_what_is_new_and_which_offset_to_wait_for(table: Table) -> None:
    def put() -> answers.Changed:
        draft = table.draft()
        written = change.put_rover(draft, ENVIRONMENT, wishes.rover(BOTH))
        outcome = answers.rover(written, wishes.rover(BOTH), draft, [])
        table.store(draft)
        return outcome

    first, second = put(), put()
    assert (first.is_new, first.is_stored, first.offset) == (True, True, 3)
    assert (second.is_new, second.is_stored, second.offset) == (False, False, 3)
    assert second.body == first.body


def test_a_cursor_carries_any_id() -> None:
    for resource_id in ("a", "orders.created.v1", "ä/ö?&"):
        assert answers.id_in(answers.cursor_of(resource_id)) == resource_id
