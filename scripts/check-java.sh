#!/bin/sh
# Ends well when a Java 17+ runtime is there (JAVA_HOME, else the path); else says in one line what to install.
oldest=17
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
major=$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
if [ -z "$major" ]; then
    echo "error: no Java runtime was found: install Java $oldest or newer (Debian, Ubuntu: openjdk-17-jre-headless)" >&2
    exit 1
fi
if [ "$major" -lt "$oldest" ]; then
    echo "error: $java is Java $major: install Java $oldest or newer (Debian, Ubuntu: openjdk-17-jre-headless)" >&2
    exit 1
fi
