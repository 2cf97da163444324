"""For which versions of a client a promise holds: the settings that a user wrote, as each release of the client has
them.

A file of settings does not say which version of the client reads it, and the defaults that fill its gaps are the
version's. So a promise names the versions for which it is true.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.contract.alternatives import in_words, missing
from delivery_verifier.contract.guarantees import GuaranteeRow, matrix
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.scenario import Claim, Profile
from delivery_verifier.planning.own_settings import clients, effective, producer, releases
from delivery_verifier.planning.own_settings.clients import ClientVersion
from delivery_verifier.planning.own_settings.releases import Release
from delivery_verifier.planning.own_settings.translation import Translation


class VersionPromise(Struct, frozen=True, kw_only=True):
    """What the user's settings promise with some releases of their client.

    * `versions`: the releases in words, e.g. `3.0.1 and 3.0.2`.
    * `assumed`: whether all other statements of the explanation are about these releases.
    * `acks`, `idempotent`, `in_flight`: what the producer of these releases has.
    * `refused`: why a producer of these releases does not start; then the other fields mean nothing.
    * `lost`, `won`: maps each guarantee to the names of the classes of faults (see `guarantees.FAULT_CLASSES`) under
      which these releases lose it, or win it, in comparison with the assumed ones.
    """

    versions: str
    assumed: bool
    acks: str = ""
    idempotent: bool = False
    in_flight: int = 0
    refused: str = ""
    lost: dict[Claim, list[str]] = {}
    won: dict[Claim, list[str]] = {}

    @property
    def summary(self) -> str:
        """The settings that matter most, in words, e.g. `acks=1, not idempotent`."""
        if self.refused:
            return self.refused
        return f"acks={self.acks}, {'idempotent' if self.idempotent else 'not idempotent'}"


class _Outcome(Struct, frozen=True):
    """What a producer of one release is. `refused`: why it does not start, or empty; then there is nothing else."""

    acks: str = ""
    idempotent: bool = False
    in_flight: int = 0
    rows: list[GuaranteeRow] = []
    refused: str = ""


def promises(profile: Profile, all_releases: bool = False) -> list[VersionPromise]:
    """Returns what the settings of `profile` promise with each release of their client, the newest first. Releases with
    the same promise share an entry.

    These are the releases that the user may mean, or, with `all_releases`, all that are known. The result is empty if
    the profile was not written for a client.
    """
    if profile.written is None:
        return []
    chosen = clients.of_profile(profile)
    outcomes: list[tuple[_Outcome, list[Release]]] = []
    for row in releases.RELEASES[chosen.client] if all_releases else chosen.matching:
        outcome = _outcome(profile, row)
        same = next((rows for known, rows in outcomes if known == outcome), None)
        if same is None:
            outcomes.append((outcome, [row]))
        else:
            same.append(row)
    assumed = _outcome(profile, chosen.release)
    newest_first = sorted(outcomes, key=lambda pair: pair[1][-1].first, reverse=True)
    return [_promise(outcome, rows, assumed) for outcome, rows in newest_first]


def remark(profile: Profile) -> str:
    """Returns a sentence for the user: for which versions of the client the promises of `profile` hold, and what others
    have.

    The text is empty if the user named a version with one set of defaults, or if the profile was not written for a
    client.
    """
    if profile.written is None or len((chosen := clients.of_profile(profile)).matching) == 1:
        return ""
    entries = promises(profile)
    assumed = next(entry for entry in entries if entry.assumed)
    others = [f"with {entry.versions}: {_difference(entry, assumed)}" for entry in entries if not entry.assumed]
    if not others:
        return f"these settings promise the same with {_family(chosen)} {assumed.versions}"
    example = next(
        f"{chosen.client}:{entry.versions.split(' ')[-1]}" for entry in reversed(entries) if not entry.assumed
    )
    named = (
        f"{chosen.client}:{releases.text(chosen.version)} is not one version" if chosen.version else "no version named"
    )
    return (
        f"{named}: defaults and promises are those of {_family(chosen)} {assumed.versions} ({assumed.summary}); "
        f"{'; '.join(others)}. Name your version, e.g. written for {example}"
    )


def lines(described: list[VersionPromise]) -> list[str]:
    """Returns `described` as lines of text: one for each entry, and one for each guarantee that these releases lose or
    win. There are none if all releases promise the same."""
    if len(described) < 2:
        return []
    text = ["by version of the client for which the settings were written"]
    for entry in described:
        mark = ", as explained here" if entry.assumed else ""
        text.append(f"  {entry.versions}: {entry.summary}{mark}")
        text += in_words("lost", entry.lost) + in_words("won", entry.won)
    return text


def holds_for(described: list[VersionPromise]) -> str:
    """Returns the end of a heading: of which releases what follows is true. Empty if all promise the same."""
    return next(
        (f" (with the defaults of {entry.versions})" for entry in described if entry.assumed and len(described) > 1), ""
    )


def _difference(entry: VersionPromise, assumed: VersionPromise) -> str:
    """Returns in words how the promises of `entry` differ from those of `assumed`."""
    if entry.summary != assumed.summary:
        return entry.summary
    return ", ".join(line.strip() for line in in_words("lost", entry.lost) + in_words("won", entry.won))


def _family(client: ClientVersion) -> str:
    return "the Java client" if client.client == "java" else "librdkafka"


def _promise(outcome: _Outcome, rows: list[Release], assumed: _Outcome) -> VersionPromise:
    comparable = bool(outcome.rows and assumed.rows)
    return VersionPromise(
        versions=releases.spans(rows),
        assumed=outcome == assumed,
        acks=outcome.acks,
        idempotent=outcome.idempotent,
        in_flight=outcome.in_flight,
        refused=outcome.refused,
        lost=missing(assumed.rows, outcome.rows) if comparable else {},
        won=missing(outcome.rows, assumed.rows) if comparable else {},
    )


def _outcome(profile: Profile, release: Release) -> _Outcome:
    """Returns what a producer of `release` is with the settings that the user wrote."""
    assert profile.written is not None
    if reason := effective.reason_not_to_start(profile.written, release):
        return _Outcome(refused=f"does not start, for {reason.partition(';')[0]}")
    full = effective.settings(profile.written, release, _family(ClientVersion(release.client)))
    if release.client == "java":
        full = producer.fitted(full)
    completed = producer.with_transactions(Translation(full))
    of_release = replace(profile, producer=completed.settings, written_for_version=releases.text(release.first))
    settings = Settings.of_profile(of_release, client=release.client)
    return _Outcome(settings.acks, settings.enable_idempotence, settings.max_in_flight, matrix(settings))
