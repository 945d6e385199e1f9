"""Faults of documents: all at once, each with its pointer, in clear words."""

from typing import Any

import pytest

from libs.common.errors import InvalidRequest, InvalidResource, NotAvailable
from libs.common.ids import subscription_id
from services.control.domain import checks, wishes
from services.control.domain.faults import Fault, pointer, refuse
from tests.unit.control.rovers import EXPOSURE, SUBSCRIPTION, rover, subscription

FIRST = "/spec/subscriptions/0"


def faults_of(document: dict[str, Any], name: str = "shop") -> dict[str, str]:
    return {pointer(fault.place): fault.detail for fault in checks.rover(document, name=name)}


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    *parents, last = path
    part = document
    for name in parents:
        part = part[name]
    del part[last]
    return document


def test_a_rover_with_everything_that_is_available_has_no_fault() -> None:
    entry = subscription(
        deliveryType="CALLBACK",
        payload="data",
        eventRetentionTime="1D",
        retryableStatusCodes=[500, 404],
        circuitBreakerOptOut=True,
        enforceGetHttpRequestMethodForHealthCheck=False,
        traceDrops=False,
        state="active",
        trigger={},
        scopes=[],
        delivery={
            "concurrency": 256,
            "timeoutSeconds": 0.5 + 0.5,
            "retry": {"on5xx": True, "attempts": 50},
            "order": "none",
        },
    )
    exposure = {
        **EXPOSURE,
        "visibility": "WORLD",
        "approval": "AUTO",
        "additionalPublisherIds": ["hub--team--other"],
    }
    assert faults_of(rover(exposures=[exposure], subscriptions=[entry])) == {}
    assert faults_of(rover()) == {}


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("deliveryType", "mail", "deliveryType"),
        ("deliveryType", 1, "deliveryType"),
        ("payloadType", "all", "payloadType"),
        ("payload", None, "payload"),
        ("callback", "", "callback"),
        ("callback", "https://a.example/" + "x" * 2_048, "callback"),
        ("eventRetentionTime", "2d", "eventRetentionTime"),
        ("eventRetentionTime", "1d\n", "eventRetentionTime"),
        ("retryableStatusCodes", 500, "retryableStatusCodes"),
        ("retryableStatusCodes", [99], "retryableStatusCodes/0"),
        ("retryableStatusCodes", [600], "retryableStatusCodes/0"),
        ("retryableStatusCodes", ["500"], "retryableStatusCodes/0"),
        ("retryableStatusCodes", [True], "retryableStatusCodes/0"),
        ("circuitBreakerOptOut", "yes", "circuitBreakerOptOut"),
        ("state", "OFF", "state"),
        ("delivery", [], "delivery"),
        ("delivery", {"concurrency": 0}, "delivery/concurrency"),
        ("delivery", {"concurrency": 257}, "delivery/concurrency"),
        ("delivery", {"concurrency": 1.5}, "delivery/concurrency"),
        ("delivery", {"timeoutSeconds": 0.9}, "delivery/timeoutSeconds"),
        ("delivery", {"timeoutSeconds": 61}, "delivery/timeoutSeconds"),
        ("delivery", {"order": "random"}, "delivery/order"),
        ("delivery", {"retry": {"on5xx": 1}}, "delivery/retry/on5xx"),
        ("delivery", {"retry": {"attempts": 0}}, "delivery/retry/attempts"),
        ("delivery", {"retry": {"attempts": 51}}, "delivery/retry/attempts"),
        ("delivery", {"retry": {"attempts": "many"}}, "delivery/retry/attempts"),
    ],
)
def test_a_value_out_of_its_bounds_is_a_fault_of_its_field(
    field: str, value: object, place: str
) -> None:
    found = faults_of(rover(subscriptions=[subscription(**{field: value})]))
    assert list(found) == [f"{FIRST}/{place}"]
    assert found[f"{FIRST}/{place}"].startswith("has to be ")


@pytest.mark.parametrize(
    ("event_type", "is_right"),
    [
        ("orders.v1", True),
        ("de.telekom.eni.quick-start.v1", True),
        ("v2.orders", True),
        ("orders.v12.created", True),
        ("orders.created", False),
        ("orders.version1", False),
        ("Orders.v1", False),
        ("orders..v1", False),
        (".orders.v1", False),
        ("orders.v1.", False),
        ("-orders.v1", False),
        ("orders_created.v1", False),
        ("orders.v1\n", False),
        ("a" * 250 + ".v1", True),
        ("a" * 251 + ".v1", False),
    ],
)
def test_event_types_are_lower_case_segments_with_a_version(
    event_type: str, is_right: bool
) -> None:
    found = faults_of(rover(exposures=[{"eventType": event_type}]))
    assert list(found) == ([] if is_right else ["/spec/exposures/0/eventType"])


@pytest.mark.parametrize(
    ("name", "team"),
    [("a--b", "eni"), ("Shop", "eni"), ("shop", ""), ("shop", "eni-"), ("shop-", "eni"), ("", "x")],
)
def test_names_that_could_stand_for_another_client_are_refused(name: str, team: str) -> None:
    document = rover(name=name, team=team)
    assert faults_of(document, name=name) != {}
    assert checks.rover_client(document) is None


def test_the_client_id_is_made_of_team_and_application() -> None:
    assert checks.rover_client(rover()) == "eni--orders--shop"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("kind",), "/kind"),
        (("apiVersion",), "/apiVersion"),
        (("metadata",), "/metadata"),
        (("metadata", "name"), "/metadata/name"),
        (("spec",), "/spec"),
        (("spec", "team"), "/spec/team"),
    ],
)
def test_a_missing_field_is_named(path: tuple[str, ...], place: str) -> None:
    assert faults_of(without(rover(), *path)) == {place: "is missing"}


@pytest.mark.parametrize("missing", ["eventType", "deliveryType", "callback"])
def test_a_subscription_without_a_mandatory_field_is_refused(missing: str) -> None:
    entry = {name: value for name, value in SUBSCRIPTION.items() if name != missing}
    assert list(faults_of(rover(subscriptions=[entry]))) == [f"{FIRST}/{missing}"]


STREAM = {"eventType": "orders.created.v1", "deliveryType": "server_sent_event"}


@pytest.mark.parametrize(
    "word",
    [
        "server_sent_event",
        "SERVER_SENT_EVENT",
        "ServerSentEvent",
        "server-sent-event",
        "sse",
        "SSE",
    ],
)
def test_a_stream_needs_no_callback_in_whatever_spelling(word: str) -> None:
    document = rover(subscriptions=[{**STREAM, "deliveryType": word}])
    assert faults_of(document) == {}
    [wish] = wishes.rover(document).subscriptions
    assert wish.settings["deliveryType"] == "server_sent_event"


@pytest.mark.parametrize("callback", ["https://shop.example/events", "http://10.0.0.1/", "nothing"])
def test_a_callback_of_a_stream_is_one_fault_that_says_what_to_do(callback: str) -> None:
    document = rover(subscriptions=[{**STREAM, "callback": callback}])
    found = faults_of(document)
    assert list(found) == [f"{FIRST}/callback"]
    assert found[f"{FIRST}/callback"].startswith("is not taken with deliveryType server_sent_event")
    assert checks.rover_callbacks(document) == []


def test_a_typo_is_a_fault_that_suggests_the_right_name() -> None:
    document = rover(subscriptions=[subscription(eventRetentonTime="1d")])
    assert faults_of(document) == {
        f"{FIRST}/eventRetentonTime": "is not a known field; did you mean eventRetentionTime?"
    }


def test_the_handbook_s_misspelt_list_does_not_lose_its_subscriptions_silently() -> None:
    document = rover()
    document["spec"]["subsciptions"] = [SUBSCRIPTION]
    assert list(faults_of(document)) == ["/spec/subsciptions"]


def test_the_name_in_the_file_has_to_be_that_of_the_path() -> None:
    assert faults_of(rover(), name="other") == {"/metadata/name": "has to be other, as in the path"}


def test_an_event_type_stands_once_among_exposures_and_once_among_subscriptions() -> None:
    twice = rover(exposures=[EXPOSURE, EXPOSURE], subscriptions=[SUBSCRIPTION, SUBSCRIPTION])
    assert list(faults_of(twice)) == [
        "/spec/exposures/1/eventType",
        "/spec/subscriptions/1/eventType",
    ]
    assert faults_of(rover(exposures=[EXPOSURE], subscriptions=[SUBSCRIPTION])) == {}


def test_a_type_limited_to_a_zone_needs_one() -> None:
    document = without(rover(exposures=[{**EXPOSURE, "visibility": "zone"}]), "spec", "zone")
    assert list(faults_of(document)) == ["/spec/exposures/0/visibility"]


def test_two_different_payloads_are_a_fault() -> None:
    entry = subscription(payload="dataref", payloadType="data")
    assert f"{FIRST}/payload" in faults_of(rover(subscriptions=[entry]))


UNAVAILABLE: list[tuple[str, object, str]] = [
    ("payloadType", "dataref", "payloadType"),
    ("trigger", {"selectionFilter": {"a": "b"}}, "trigger"),
    ("scopes", ["billing"], "scopes"),
    ("filterProfile", "standard", "filterProfile"),
    ("traceDrops", True, "traceDrops"),
    ("redeliveriesPerSecond", 5, "redeliveriesPerSecond"),
    (
        "enforceGetHttpRequestMethodForHealthCheck",
        True,
        "enforceGetHttpRequestMethodForHealthCheck",
    ),
    ("state", "PAUSED", "state"),
    ("delivery", {"order": "key"}, "delivery/order"),
    ("delivery", {"onFailure": "skip"}, "delivery/onFailure"),
    ("delivery", {"ratePerSecond": 10}, "delivery/ratePerSecond"),
    ("delivery", {"signing": {"secret": "x"}}, "delivery/signing"),
    ("delivery", {"retry": {"attempts": "unlimited"}}, "delivery/retry/attempts"),
]


@pytest.mark.parametrize(("field", "value", "place"), UNAVAILABLE)
def test_a_feature_of_a_later_version_is_refused_by_name(
    field: str, value: object, place: str
) -> None:
    document = rover(subscriptions=[subscription(**{field: value})])
    with pytest.raises(NotAvailable) as refused:
        refuse(checks.rover(document, name="shop"))
    assert [violation.pointer for violation in refused.value.violations] == [f"{FIRST}/{place}"]
    assert "not available" in refused.value.violations[0].detail


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scopes", [{"name": "billing"}]),
        ("approval", "SIMPLE"),
        ("approval", {"strategy": "Auto", "trustedTeams": ["a"]}),
        ("specification", {"type": "object"}),
        ("deduplicate", True),
        ("ingest", True),
        ("orderingGroup", "orders"),
    ],
)
def test_a_feature_of_a_later_version_is_refused_in_exposures_too(
    field: str, value: object
) -> None:
    with pytest.raises(NotAvailable) as refused:
        refuse(checks.rover(rover(exposures=[{**EXPOSURE, field: value}]), name="shop"))
    assert [entry.pointer for entry in refused.value.violations] == [f"/spec/exposures/0/{field}"]


def test_an_event_specification_is_refused_as_not_available() -> None:
    document = {"kind": "EventSpecification", "apiVersion": "tcp.ei.telekom.de/v1", "spec": {}}
    with pytest.raises(NotAvailable) as refused:
        refuse(checks.rover(document, name="shop"))
    assert [violation.pointer for violation in refused.value.violations] == ["/kind"]


def test_all_faults_are_reported_together() -> None:
    document = rover(
        exposures=[{"eventType": "Bad", "scopes": ["a"]}],
        subscriptions=[subscription(trigger={"a": 1}, callbak="x", eventRetentionTime="9d")],
        name="other",
    )
    with pytest.raises(InvalidResource) as refused:
        refuse(checks.rover(document, name="shop"))
    assert {violation.pointer for violation in refused.value.violations} == {
        "/metadata/name",
        "/spec/exposures/0/eventType",
        "/spec/exposures/0/scopes",
        f"{FIRST}/trigger",
        f"{FIRST}/callbak",
        f"{FIRST}/eventRetentionTime",
    }


def test_a_document_full_of_faults_lists_a_bounded_number_and_counts_them_all() -> None:
    with pytest.raises(InvalidRequest, match="in 250 places") as refused:
        refuse(Fault(("a", index), "is wrong") for index in range(250))
    assert len(refused.value.violations) == 100


def test_a_field_s_name_is_escaped_in_its_pointer() -> None:
    assert pointer(("a/b", "c~d", 0)) == "/a~1b/c~0d/0"


@pytest.mark.parametrize("spec", [None, [], "x", {"exposures": {}}, {"subscriptions": [None, 1]}])
def test_a_document_of_any_form_gives_faults_and_never_fails(spec: object) -> None:
    document = {**rover(), "spec": spec}
    assert checks.rover(document, name="shop") != []
    assert checks.rover_callbacks(document) == []


def single(**fields: Any) -> dict[str, Any]:
    return {
        "subscriberId": "a--b--c",
        "type": "orders.v1",
        "deliveryType": "callback",
        "callback": "https://a.example/",
        **fields,
    }


ID = subscription_id(environment="integration", event_type="orders.v1", subscriber_id="a--b--c")


def test_a_single_subscription_belongs_to_the_path_that_its_names_give() -> None:
    found = checks.subscription(single(), environment="integration", path_id=ID)
    assert found == []
    for document, path in ((single(), "0" * 40), (single(subscriptionId="1" * 40), ID)):
        [fault] = checks.subscription(document, environment="integration", path_id=path)
        assert fault.place == ("subscriptionId",)
        assert ID in fault.detail


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publisherTrigger", {"selectionFilter": {}}),
        ("appliedScopes", ["a"]),
        ("jsonSchema", "{}"),
    ],
)
def test_what_only_single_subscriptions_have_is_refused_when_not_available(
    field: str, value: object
) -> None:
    document = single(**{field: value})
    with pytest.raises(NotAvailable):
        refuse(checks.subscription(document, environment="integration", path_id=ID))


def test_a_single_exposure_belongs_to_the_path_of_its_type() -> None:
    document = {"eventType": "orders.v1", "publisherId": "a--b--c"}
    assert checks.exposure(document, event_type="orders.v1") == []
    [fault] = checks.exposure(document, event_type="other.v1")
    assert fault.place == ("eventType",)
