"""Logins of Amazon MSK by IAM (`AWS_MSK_IAM`, or signed tokens of `OAUTHBEARER`), in the words of aws-msk-iam-auth:
which AWS identity, and which region.

Holds no secret: credentials are found by botocore where the connection is made (`kafka/net/msk.py`).
Source: aws-msk-iam-auth, its options of `IAMLoginModule`, which its handler for tokens takes as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import BadKafkaConfig

MECHANISM = "AWS_MSK_IAM"
LOGIN_MODULE = "IAMLoginModule"
TOKEN_HANDLER = "IAMOAuthBearerLoginCallbackHandler"  # noqa: S105  # a class of Java
SETTINGS = frozenset({"sasl.client.callback.handler.class"})  # names the class of Java that does what offsite does
_HOST = re.compile(r"[^/]+\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?", re.IGNORECASE)
_FIELDS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}
_WITHOUT_MEANING = frozenset({"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsLogin:
    """An identity of AWS. All fields may be empty: the credentials of the place, as botocore finds them. `profile`: of
    the AWS configuration. `role_arn`: a role that the identity takes on, at the STS of `sts_region`."""

    profile: str = ""
    role_arn: str = ""
    session_name: str = "offsite"
    external_id: str = ""
    sts_region: str = ""


def aws_login(options: Mapping[str, str]) -> AwsLogin:
    """The login of a JAAS line. Raises `BadKafkaConfig` for an option with another meaning."""
    unknown = sorted(options.keys() - _FIELDS.keys() - _WITHOUT_MEANING)
    if unknown:
        raise BadKafkaConfig(
            f"the line has options that offsite lacks: {', '.join(unknown)}",
            hint=f"use {', '.join(_FIELDS)}; put access keys into a profile of AWS, and name it by awsProfileName",
        )
    login = AwsLogin(**{field: options[option] for option, field in _FIELDS.items() if options.get(option)})
    if not login.role_arn and (login.external_id or login.sts_region):
        raise BadKafkaConfig("awsRoleExternalId and awsStsRegion need a role", hint="add awsRoleArn")
    return login


def region_of(host: str) -> str:
    """The region in the name of a broker of MSK, or an empty text for other names."""
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else ""
