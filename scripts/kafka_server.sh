#!/bin/sh
# Makes .kafka, where the tests find the jars of a Kafka broker (server/) and of Spark's connector (client/).
# Needs Maven: looks for it on PATH, and installs it when root.
set -eu
cd "$(dirname "$0")/.."

if ! command -v mvn >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing Maven, which brings the jars of Kafka"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven >/dev/null
    else
        echo "setup: the tests against Kafka need Maven. Install it, then make again:" >&2
        echo "setup:     Debian, Ubuntu   sudo apt-get install maven" >&2
        echo "setup:     Fedora, RHEL     sudo dnf install maven" >&2
        echo "setup:     macOS            brew install maven" >&2
        exit 1
    fi
fi

echo "setup: making .kafka for the tests against Kafka"
rm -rf .kafka
mvn --quiet --batch-mode --file scripts/kafka_pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/.kafka/server"
mkdir .kafka/client
# Of these Spark has none; it brings all else that they need.
mv .kafka/server/spark-*.jar .kafka/server/commons-pool2-*.jar .kafka/client/
cp .kafka/server/kafka-clients-*.jar .kafka/client/
