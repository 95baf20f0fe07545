#!/bin/bash
# The command of an executor pod: Spark gives the pod variables that say what to run, and the argument "executor".
set -euo pipefail

options=()
for ((n = 0; ; n++)); do
    name=SPARK_JAVA_OPT_$n
    [[ -v $name ]] || break
    options+=("${!name}")
done
jars=$(python3 -c 'from offsite.engine.local.jvm import spark_home; print(spark_home() / "jars")')

# The master is told, since Spark takes spark.authenticate.secret.file on no other, and does not tell it to executors.
exec java "${options[@]}" -Dspark.master=k8s://driver \
    -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
