#!/bin/sh
# Spark needs Java 17 or newer. Looks where Spark looks (JAVA_HOME, then PATH); installs it when root.
set -eu

java_version() { # prints the major version, or 0
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; else java=java; fi
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${version:-0}"
}

is_there() { [ "$(java_version)" -ge 17 ]; }

install_java() {
    if command -v apt-get; then
        apt-get update -qq
        # Newer Debians no longer carry 17, but their default is newer still.
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless
    elif command -v dnf; then dnf install -y -q java-17-openjdk-headless || dnf install -y -q java-latest-openjdk-headless
    elif command -v yum; then yum install -y -q java-17-openjdk-headless
    elif command -v apk; then apk add -q openjdk17-jre-headless bash # Spark's own start script is bash
    else return 1
    fi >/dev/null
}

if is_there; then exit 0; fi

# A JAVA_HOME that points at an old or missing Java wins over PATH: installing would change nothing.
if [ -n "${JAVA_HOME:-}" ]; then
    echo "java: JAVA_HOME=$JAVA_HOME holds no Java 17 or newer (found version $(java_version), 0 is none)." >&2
    echo "java: point it at one, or 'unset JAVA_HOME' to use the java on PATH; then make again." >&2
    exit 1
fi

if [ "$(id -u)" = 0 ]; then
    echo "java: none of version 17 or newer found; installing it"
    if install_java && is_there; then exit 0; fi
    echo "java: the installation did not give a Java 17 or newer." >&2
fi

cat >&2 <<'HELP'
java: Spark needs Java 17 or newer. Install it, then make again:
java:     Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
java:     Fedora, RHEL     sudo dnf install java-17-openjdk-headless
java:     Alpine           sudo apk add openjdk17-jre-headless bash
java:     macOS            brew install openjdk@17
java: A Java that is elsewhere is found through JAVA_HOME.
HELP
exit 1
