#!/usr/bin/env bash
# Write src/offsite/sandbox/kafka-VERSION.sha256: which jars that broker needs and what their bytes must be.
# Maven resolves and checks them; what only Connect and the REST tools need is left out. See docs/change/kafka-version.md.
set -euo pipefail

version=${1:?usage: scripts/pin-kafka.sh VERSION}
list=$(cd "$(dirname "$0")/../src/offsite/sandbox" && pwd)/kafka-$version.sha256
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

artifacts="org.apache.kafka:kafka_2.13:$version"
case $version in
2.* | 3.*) # brokers up to 3 log through log4j 1, whose living form is reload4j; their jars bring no binding
    artifacts+=" ch.qos.reload4j:reload4j:1.2.25 org.slf4j:slf4j-reload4j:1.7.36" ;;
*) artifacts+=" org.apache.kafka:kafka-tools:$version" ;;
esac
unused='/(connect-|jersey|jetty|jakarta|hk2|javax|jaxb|jackson-(jakarta|module-(blackbird|jakarta)|dataformat-yaml)|aopalliance'
unused+='|osgi|swagger|snakeyaml|classgraph|javassist|maven|plexus|commons-lang3|activation|jspecify)'
unused+='|/commons-(beanutils|collections|digester|logging)-'
case $version in 4.*) unused+='|/scala-reflect-' ;; esac

resolve() { # ARTIFACT...: all of them and what they need, below $work/jars by group, artifact and version
    {
        echo '<project><modelVersion>4.0.0</modelVersion><groupId>offsite</groupId><artifactId>pin</artifactId>'
        echo '<version>1</version><packaging>pom</packaging><dependencies>'
        printf '%s\n' "$@" | sed -E \
            's|(.*):(.*):(.*)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version></dependency>|'
        echo '</dependencies></project>'
    } >"$work/pom.xml"
    mvn --batch-mode --quiet --file "$work/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -Dmdep.useRepositoryLayout=true -DoutputDirectory="$work/jars"
}

# shellcheck disable=SC2086
resolve $artifacts
if log4j=$(find "$work/jars" -name 'log4j-core-*.jar' | grep .); then # brokers from 4 on: the binding of the same version
    log4j=${log4j##*log4j-core-}
    # shellcheck disable=SC2086
    resolve $artifacts "org.apache.logging.log4j:log4j-slf4j-impl:${log4j%.jar}"
fi

{
    echo "# The jars a Kafka $version broker needs: SHA-256, Maven coordinate. Written by scripts/pin-kafka.sh."
    cd "$work/jars"
    find . -name '*.jar' | grep -Ev "$unused" | LC_ALL=C sort | while read -r jar; do
        path=$(dirname "${jar#./}") && place=$(dirname "$path")
        artifact=$(basename "$place") && group=$(dirname "$place" | tr / .)
        file=$(basename "$jar" .jar) && number=$(basename "$path")
        tail=${file#"$artifact-$number"} # a classifier, such as netty's linux-x86_64: not of our list
        [ -z "$tail" ] && echo "$(sha256sum <"$jar" | cut -d' ' -f1)  $group:$artifact:$number"
    done
} >"$list"
echo "$(basename "$list"): $(grep -vc '^#' "$list") jars"
