"""The test suites: JUnit on the Java virtual machine, Robolectric, and the native libraries on Linux and under qemu."""
