"""Documents that are taken, and such as are refused: by the models, by the schemas, and by a real API server alike."""

from __future__ import annotations

from typing import Any

RESTORE: dict[str, Any] = {"backupUrl": "s3://bucket/kafka#shop", "cluster": "shop-2"}
SCHEDULE: dict[str, Any] = {"backup": "shop", "action": "checkpoint", "cron": "*/15 * * * *"}


def document(kind: str, spec: dict[str, Any] | None, *, name: str = "shop") -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "offsite.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
    return made if spec is None else made | {"spec": spec}


POD_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "shop"}, "annotations": {"example.com/owner": "shop"}},
    "spec": {
        "serviceAccountName": "shop-backup",
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "backups", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "shop"}},
                        },
                    }
                ]
            },
        },
        "containers": [
            {
                "name": "agent",
                "image": "mirror/offsite:1",
                "env": [{"name": "TZ", "value": "Europe/Zurich"}],
                "resources": {"requests": {"cpu": "500m", "ephemeral-storage": "2Gi"}, "limits": {"memory": "4Gi"}},
                "volumeMounts": [
                    {"name": "authority", "mountPath": "/mnt/authority", "readOnly": True},
                    {"name": "keys", "mountPath": "/mnt/keys/of/shop"},
                    {"name": "share", "mountPath": "/mnt/share"},
                ],
            }
        ],
        "volumes": [
            {"name": "temporary", "emptyDir": {"sizeLimit": "20Gi"}},
            {"name": "authority", "configMap": {"name": "authority", "items": [{"key": "ca.pem", "path": "ca.pem"}]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 288}},
            {"name": "share", "persistentVolumeClaim": {"claimName": "share"}},
        ],
    },
}
"""With everything that is allowed."""


def template(spec: dict[str, Any]) -> dict[str, Any]:
    """A backup with such pods."""
    return document("Backup", {"agents": {"template": {"spec": spec}}})


def mount(path: str, volume: str) -> dict[str, Any]:
    """An agent with a volume at a path."""
    return {"containers": [{"name": "agent", "volumeMounts": [{"name": volume, "mountPath": path}]}]}


ACCEPTED: dict[str, dict[str, Any]] = {
    "a backup without a spec": document("Backup", None),
    "a backup of defaults": document("Backup", {}),
    "a backup of a cluster of Strimzi": document(
        "Backup", {"strimzi": {"name": "prod", "namespace": "kafka", "listener": "tls", "user": "backup"}}
    ),
    "a backup with everything": document(
        "Backup",
        {
            "cluster": "shop",
            "state": "paused",
            "destination": {
                "account": "s3",
                "endpoint": "s3://bucket/kafka",
                "path": "shop_A.1",
                "timestampFormat": "",
            },
            "tag": "daily.1_A-b",
            "topics": ["orders", "regex:pay.*"],
            "exclude": ["*-dlq"],
            "snapshotDuration": "1.5h",
            "agents": {
                "replicas": 0,
                "template": {
                    "sparkMaster": "local[2]",
                    "sparkConf": {"spark.executor.memory": "2g", "spark.task.cpus": "2"},
                    "sparkArchive": "hdfs:///apps/offsite.tar.gz",
                    "image": "offsite:1",
                    "environment": {"TZ": "Europe/Zurich"},
                    "resources": {"cpu": "500m", "memory": "1Gi"},
                },
            },
            "parameters": {"interval": "10s"},
            "expiry": {"maximumRetention": "30d", "minimumRestorable": "7d", "deletionFinalizer": False},
        },
    ),
    "a pod template": document("Backup", {"agents": {"template": POD_TEMPLATE}}),
    "a minimum as long as the maximum, in another unit": document(
        "Backup", {"expiry": {"maximumRetention": "1.5h", "minimumRestorable": "90m"}}
    ),
    "a minimum without a maximum": document("Backup", {"expiry": {"minimumRestorable": "7d"}}),
    "a backup of no topics": document("Backup", {"topics": []}),
    "names at their longest": document("Backup", {"tag": "t" * 63, "parameters": {"p" * 40: ""}}),
    "a restore of the newest": document("Restore", RESTORE),
    "a restore of a time": document(
        "Restore", {**RESTORE, "timestamp": "2026-11-24T12:00:00Z", "sourceCluster": "shop"}
    ),
    "a restore of a commit, with a time that counts less": document(
        "Restore", {**RESTORE, "timestamp": "2026-11-24T12:00:00Z", "commit": 7}
    ),
    "a restore under other names": document("Restore", {**RESTORE, "rename": ["a=b"], "offsets": "preserve"}),
    "a restore at a rate, into other partitions": document(
        "Restore",
        {**RESTORE, "repartition": ["a=12", "3"], "keyless": "in-turn", "batchBytes": "64kB", "writeLimit": "1.5 MiB"},
    ),
    "a rate with its time": document("Restore", {**RESTORE, "writeLimit": "20MB/s"}),
    "a schedule": document("Schedule", SCHEDULE),
    "a drill": document("Schedule", {**SCHEDULE, "action": "drill", "timeZone": "Europe/Zurich", "suspend": True}),
}

REFUSED: dict[str, dict[str, Any]] = {
    "a field that there is not": document("Backup", {"snapshotduration": "7d"}),
    "a cluster of Strimzi without a listener": document("Backup", {"strimzi": {"name": "prod"}}),
    "a listener that Strimzi has not": document("Backup", {"strimzi": {"name": "prod", "listener": "TLS/1"}}),
    "a field that there is not, deep inside": document("Backup", {"agents": {"template": {"imaged": "x"}}}),
    "a field beside the spec": document("Backup", {}) | {"spcc": {}},
    "a resource that is not requested so": document("Backup", {"agents": {"template": {"resources": {"gpu": "1"}}}}),
    "a setting of two lines": document("Backup", {"agents": {"template": {"sparkConf": {"spark.a": "b\nspark.c=d"}}}}),
    "a folder of the node": template({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}),
    "the network of the node": template({"hostNetwork": True}),
    "another container": template({"containers": [{"name": "sidecar"}]}),
    "a privilege": template({"containers": [{"name": "agent", "securityContext": {"privileged": True}}]}),
    "a mount over the image": template({**mount("/usr/lib", "a"), "volumes": [{"name": "a", "emptyDir": {}}]}),
    "a mount that leads out": template({**mount("/mnt/../usr", "a"), "volumes": [{"name": "a", "emptyDir": {}}]}),
    "an amount of nothing": template({"containers": [{"name": "agent", "resources": {"limits": {"cpu": "much"}}}]}),
    "a state that there is not": document("Backup", {"state": "runing"}),
    "a duration in words": document("Backup", {"snapshotDuration": "7 days"}),
    "no snapshot duration": document("Backup", {"snapshotDuration": ""}),
    "a path that leads out": document("Backup", {"destination": {"path": "../x"}}),
    "fewer than no agents": document("Backup", {"agents": {"replicas": -1}}),
    "too many agents": document("Backup", {"agents": {"replicas": 101}}),
    "a number in quotes": document("Backup", {"agents": {"replicas": "3"}}),
    "a word for yes": document("Backup", {"expiry": {"deletionFinalizer": "yes"}}),
    "a topic without a name": document("Backup", {"topics": [""]}),
    "too many topics": document("Backup", {"topics": ["t"] * 257}),
    "one topic that is no list": document("Backup", {"topics": "orders"}),
    "a cluster that is no name": document("Backup", {"cluster": "Shop"}),
    "no tag": document("Backup", {"tag": ""}),
    "a parameter that is a number": document("Backup", {"parameters": {"interval": 10}}),
    "too many parameters": document("Backup", {"parameters": {f"p{number}": "" for number in range(33)}}),
    "a name that is too long": document("Backup", {}, name="n" * 64),
    "a name that is none": document("Backup", {}, name="A"),
    "a restore without a spec": document("Restore", None),
    "a restore from nowhere": document("Restore", {"cluster": "shop-2"}),
    "a restore into nothing": document("Restore", {"backupUrl": "s3://bucket/kafka#shop"}),
    "a restore of a repository": document("Restore", {**RESTORE, "backupUrl": "s3://bucket/kafka"}),
    "a restore that is paused": document("Restore", {**RESTORE, "state": "paused"}),
    "a commit below zero": document("Restore", {**RESTORE, "commit": -1}),
    "a commit beyond all numbers": document("Restore", {**RESTORE, "commit": 2**53}),
    "half a commit": document("Restore", {**RESTORE, "commit": 1.5}),
    "a rate that is a number": document("Restore", {**RESTORE, "writeLimit": 20_000_000}),
    "a rate without a unit": document("Restore", {**RESTORE, "writeLimit": "20000000"}),
    "a rate in words": document("Restore", {**RESTORE, "writeLimit": "fast"}),
    "a size with a time": document("Restore", {**RESTORE, "repartition": ["12"], "batchBytes": "64kB/s"}),
    "a way of keyless records that there is not": document("Restore", {**RESTORE, "keyless": "random"}),
    "a schedule without times": document("Schedule", {"backup": "shop", "action": "drill"}),
    "an action that there is not": document("Schedule", {**SCHEDULE, "action": "dril"}),
    "no history": document("Schedule", {**SCHEDULE, "history": 0}),
}

REFUSED_BY_RULES: dict[str, dict[str, Any]] = {
    "a volume of two sources": template({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "a"}}]}),
    "a volume of nothing": template({"volumes": [{"name": "a"}]}),
    "the volume of the cluster": template({"volumes": [{"name": "cluster", "emptyDir": {}}]}),
    "temporary files out of a config map": template({"volumes": [{"name": "temporary", "configMap": {"name": "a"}}]}),
    "a mount of what is not there": template(mount("/mnt/a", "a")),
    "a volume twice": template({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
    "a time of no cluster": document("Restore", {**RESTORE, "timestamp": "2026-11-24T12:00:00Z"}),
    "a size of batches that nobody makes": document("Restore", {**RESTORE, "batchBytes": "64kB"}),
}
"""A schema cannot say why. The models and the rules in CEL do."""

REFUSED_BY_KEYS: dict[str, dict[str, Any]] = {
    "a setting that is not Spark's": document("Backup", {"agents": {"template": {"sparkConf": {"other.a": "b"}}}}),
    "a parameter with a long name": document("Backup", {"parameters": {"p" * 41: ""}}),
    "a setting whose name has an =": document("Backup", {"agents": {"template": {"sparkConf": {"spark.a=b": "c"}}}}),
    "a setting whose name has two lines": document(
        "Backup", {"agents": {"template": {"sparkConf": {"spark.a=b\nspark.c": "d"}}}}
    ),
}
"""Of the structural schema, too, a rule in CEL says so."""

REFUSED_BY_LISTS: dict[str, dict[str, Any]] = {
    "a setting that chooses code": document("Backup", {"agents": {"template": {"sparkConf": {"spark.jars": "x"}}}}),
    "a variable that chooses code": document("Backup", {"agents": {"template": {"environment": {"LD_PRELOAD": "x"}}}}),
}
"""The models take them, for what was accepted once stays readable; nothing is done by them."""

REFUSED_AS_CONTRADICTIONS: dict[str, dict[str, Any]] = {
    f"a minimum of {least} and a maximum of {most}": document(
        "Backup", {"expiry": {"maximumRetention": most, "minimumRestorable": least}}
    )
    for most, least in (("1h", "2h"), ("1h", "90m"), ("6.5d", "1w"), ("999ms", "1s"), ("0s", "1ms"), ("7d", "169h"))
}
"""The same, of what a schema cannot compare: a rule in CEL does."""
