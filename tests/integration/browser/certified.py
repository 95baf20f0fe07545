"""An identity provider that others wrote, and that is certified for OpenID Connect: the npm package `oidc-provider`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from joserfc.jwk import ECKey, RSAKey

from tests.fetched_tools import NODE, npm_packages
from tests.s3_servers import free_port

CLIENT, SECRET = "offsite", "a+secret/with:all kinds%of&signs"
_PINS = Path(__file__).parent / "identity_provider"
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedProvider:
    issuer: str


@contextmanager
def certified_provider(
    public_url: str, groups: Mapping[str, Sequence[str]], algorithm: str = "RS256"
) -> Iterator[CertifiedProvider]:
    """Serve the client of `public_url`. `groups`: of people by name."""
    folder, port = npm_packages("oidc-provider", _PINS), free_port()
    parameters = {"kid": "tests", "use": "sig"}
    if algorithm.startswith("ES"):
        key: ECKey | RSAKey = ECKey.generate_key("P-256", parameters, private=True)
    else:
        key = RSAKey.generate_key(2048, parameters, private=True)
    settings = {
        "issuer": f"http://127.0.0.1:{port}",
        "port": port,
        "publicUrl": public_url,
        "clientId": CLIENT,
        "clientSecret": SECRET,
        "groups": groups,
        "algorithm": algorithm,
        "key": key.as_dict(private=True),
    }
    process = subprocess.Popen(
        [str(NODE), "--input-type=module", "-", json.dumps(settings)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write((_PINS / "provider.js").read_text())
        process.stdin.close()
        assert next((line for line in process.stdout if line.strip() == "ready"), None), "the provider did not start"
        yield CertifiedProvider(issuer=str(settings["issuer"]))
    finally:
        process.kill()
        process.wait(_LIMIT_S)
        process.stdout.close()
