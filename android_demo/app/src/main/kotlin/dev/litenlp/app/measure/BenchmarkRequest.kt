package dev.litenlp.app.measure

/**
 * Parameters of a benchmark.
 *
 * @property runtimes names, null for all that the model has graphs for
 * @property threads counts to sweep
 * @property sentences how many of the built-in ones, from the beginning
 * @property model name or folder of an installed model, null for the selected one
 */
data class BenchmarkRequest(
    val runtimes: List<String>? = null,
    val threads: List<Int>,
    val warmup: Int = 1,
    val repeats: Int = 3,
    val beamSize: Int = 1,
    val sentences: Int = SENTENCES,
    val model: String? = null,
) {
    companion object {
        /** Of the built-in ones, those that `lite-nlp bench` takes too. */
        const val SENTENCES = 32

        private const val MAX_THREADS = 64
        private const val MAX_BEAM = 16
        private const val MAX_ROUNDS = 100

        /** Names that [parse] knows. */
        val KEYS = listOf("runtime", "threads", "warmup", "repeats", "beam", "sentences", "model")

        /**
         * Counts of threads worth a try on so many cores: 1, 2, 4, ... and all of them.
         */
        fun sweep(cores: Int): List<Int> =
            (generateSequence(1) { it * 2 }.takeWhile { it < cores } + cores.coerceAtLeast(1)).toList()

        /**
         * Reads a request from named texts, as they come with an intent.
         *
         * @param values any of [KEYS]; `runtime` and `threads` may be lists with commas
         * @param cores of this device
         * @throws IllegalArgumentException for what makes no sense: names it, what was expected and what was found
         */
        fun parse(values: Map<String, String>, runtimes: List<String>, cores: Int): BenchmarkRequest {
            val unknown = values.keys - KEYS.toSet()
            require(unknown.isEmpty()) { "expected extras among ${KEYS.joinToString(" ")}, found ${unknown.joinToString(" ")}" }
            fun number(key: String, default: Int, range: IntRange): Int {
                val text = values[key] ?: return default
                return requireNotNull(text.trim().toIntOrNull()?.takeIf { it in range }) {
                    "$key: expected a number of ${range.first} to ${range.last}, found '$text'"
                }
            }
            return BenchmarkRequest(
                runtimes = values["runtime"]?.let { text ->
                    val names = text.split(',').map { it.trim() }.distinct()
                    require(names.all { it in runtimes }) {
                        "runtime: expected names among ${runtimes.joinToString(" ")}, found '$text'"
                    }
                    names
                },
                threads = values["threads"]?.let { text ->
                    val counts = text.split(',').map { it.trim().toIntOrNull() ?: 0 }.distinct()
                    require(counts.all { it in 1..MAX_THREADS }) {
                        "threads: expected numbers of 1 to $MAX_THREADS such as 1,2,4, found '$text'"
                    }
                    counts
                } ?: sweep(cores),
                warmup = number("warmup", 1, 0..MAX_ROUNDS),
                repeats = number("repeats", 3, 1..MAX_ROUNDS),
                beamSize = number("beam", 1, 1..MAX_BEAM),
                sentences = number("sentences", SENTENCES, 1..SENTENCES),
                model = values["model"],
            )
        }
    }
}
