package dev.litenlp.core.bundle

import org.json.JSONObject

/**
 * `manifest.json`: contents of a bundle, interface of its graphs, and provenance. `docs/export.md` describes it.
 *
 * A manifest that [parse] accepts is sound in its structure; the files that it lists have yet to be checked.
 *
 * @property schemaVersion Of the layout.
 * @property name Of the model.
 * @property versions Name of a package, or of `opset`, to the version that made the bundle.
 * @property precision Of the weights: `fp32`, `int8` or `mixed`.
 * @property languages Null if unknown.
 * @property decoding Null if the model's configuration does not say how to search.
 * @property state The decoder's state tensors, in the order of `decode_step`'s arguments.
 * @property onnx Null if the bundle has no ONNX graphs.
 * @property executorch Null if the bundle has no ExecuTorch program.
 * @property budget Parameters and Mult-Adds, as `lite-nlp budget --json` prints them; empty if not recorded.
 * @property graphs Work of each runtime's graphs as polynomials of the lengths; empty if not recorded.
 * @property scores The model's quality by name of the test set; empty if unknown.
 * @property files Every member of the archive but the manifest.
 * @property packed Members that a compact bundle describes instead of storing; null in a plain one.
 */
class Manifest internal constructor(
    val schemaVersion: Int,
    val name: String,
    val versions: Map<String, String>,
    val precision: String,
    val languages: Languages?,
    val vocabulary: Vocabulary,
    val bounds: Bounds,
    val decoding: DecodingDefaults?,
    val state: List<StateTensor>,
    val onnx: OnnxEntry?,
    val executorch: ExecuTorchEntry?,
    val budget: JSONObject,
    val graphs: JSONObject,
    val scores: JSONObject,
    val files: Map<String, FileEntry>,
    val packed: Packed?,
) {
    /** Names of the state tensors that `encode` returns, in its order. */
    val encoded: List<String> = state.filter { it.origin == Origin.ENCODE }.map { it.name }

    /** Names of the state tensors that `decode_step` returns, in its order. */
    val changing: List<String> = state.filter { it.changes }.map { it.name }

    /** The files of an installed bundle but the manifest: those of [files] that are no ingredients, and the made ones. */
    val plainFiles: Map<String, FileEntry> =
        files - packed?.ingredients.orEmpty() + packed?.members.orEmpty().mapValues { it.value.entry }

    companion object {
        /** Name of the manifest in a bundle. */
        const val FILE = "manifest.json"

        /** Name of the tokenizer in a bundle. */
        const val TOKENIZER_FILE = "tokenizer.json"

        /** Name of the model's configuration in a bundle. */
        const val CONFIG_FILE = "config.toml"

        /** Name of what training recorded in a bundle. */
        internal const val METRICS_FILE = "metrics.json"

        /** Newest layout that this version reads. */
        const val SCHEMA_VERSION = 1

        /** What the bundles are for that this library runs. */
        internal const val TASK = "translation"

        /**
         * Reads `manifest.json`.
         *
         * @throws dev.litenlp.core.LiteNlpException `NEWER_SCHEMA`; `OTHER_TASK` if it is that of a model which does not
         *   translate; `TOO_LARGE` if it describes larger members than can be
         *   made; `UNSUPPORTED` if it records work of an unknown kind; `NOT_A_BUNDLE` if it is no manifest.
         */
        fun parse(content: ByteArray): Manifest = parseManifest(content)
    }
}

/** Size and hash of a file; [sha256] in lower-case hexadecimal. */
data class FileEntry(val sha256: String, val sizeBytes: Long)

/** Source and target language, as ISO 639 codes or whatever the data was labelled with. */
data class Languages(val src: String, val tgt: String)

/** Sizes of the vocabularies and ids of the special tokens. */
data class Vocabulary(val srcSize: Int, val tgtSize: Int, val padId: Int, val bosId: Int, val eosId: Int)

/**
 * Largest sizes that the graphs accept.
 *
 * @property source Source tokens of a sentence, end mark included.
 * @property capacity Decoder steps, which is the size of the caches.
 * @property executorchBatch Rows of one call of the ExecuTorch methods.
 * @property executorchSources The same of `encode`.
 */
data class Bounds(val source: Int, val capacity: Int, val executorchBatch: Int, val executorchSources: Int)

/**
 * Search options of the model's configuration.
 *
 * @property lengthPenalty Exponent of the length penalty of beam search.
 * @property noRepeatNgram No run of so many tokens occurs twice in an output; 0 allows all.
 * @property minLength Fewest tokens of an output.
 * @property maxLength Most tokens of an output; 0 leaves it to the length of the input and the bounds.
 * @property truncates Whether of an input of more than [maxSourceTokens] only the beginning is taken; else it is taken in pieces.
 * @property maxSourceTokens Most tokens of an input, the end mark not counted; the bounds may allow fewer.
 */
data class DecodingDefaults(
    val lengthPenalty: Double,
    val noRepeatNgram: Int,
    val minLength: Int,
    val maxLength: Int,
    val truncates: Boolean,
    val maxSourceTokens: Int,
)

/**
 * One tensor of the decoder's state.
 *
 * @property name Its name among the graphs' inputs and outputs.
 * @property shape Its dimensions; the batch is first.
 * @property origin Its value before the first step.
 * @property changes Whether `decode_step` returns a new value; else the same tensor is passed at every step.
 */
data class StateTensor(
    val name: String,
    val type: ElementType,
    val shape: List<Dimension>,
    val origin: Origin,
    val changes: Boolean,
)

/** Element types of state tensors; [key] as the manifest names them. */
enum class ElementType(internal val key: String) {
    FLOAT32("float32"),
    INT64("int64"),
    BOOL("bool"),
}

/** Initial value of a state tensor; [key] as the manifest names it. */
enum class Origin(internal val key: String) {
    /** All zeros. */
    ZEROS("zeros"),

    /** An output of `encode`. */
    ENCODE("encode"),

    /** The mask that `encode` was given. */
    SRC_MASK("src_mask"),
}

/** A dimension of a state tensor: a number, or a size known at run time. */
sealed class Dimension {
    /** Always [size]. */
    data class Fixed(val size: Int) : Dimension() {
        override fun resolve(batch: Int, source: Int, capacity: Int): Int = size
    }

    /** Rows of the batch. */
    object BATCH : Dimension() {
        override fun resolve(batch: Int, source: Int, capacity: Int): Int = batch
    }

    /** Tokens of the longest source. */
    object SOURCE : Dimension() {
        override fun resolve(batch: Int, source: Int, capacity: Int): Int = source
    }

    /** Slots of the caches. */
    object CAPACITY : Dimension() {
        override fun resolve(batch: Int, source: Int, capacity: Int): Int = capacity
    }

    /** Its size for [batch] rows, [source] tokens of the longest source and [capacity] decoder steps. */
    abstract fun resolve(batch: Int, source: Int, capacity: Int): Int
}

/**
 * The ONNX graphs: names of their files.
 *
 * @property greedy A whole greedy search.
 * @property beam Steps of beam search.
 * @property weights The weights of all, which the graphs look for beside them.
 * @property newPrefix What precedes a changing state tensor's name among the outputs of `decode_step` and `beam`.
 * @property operators Those that are not of the ONNX standard.
 * @property oldestRuntime The oldest ONNX Runtime that runs the graphs, `major.minor`.
 */
data class OnnxEntry(
    val encode: String,
    val decodeStep: String,
    val greedy: String,
    val beam: String,
    val weights: String,
    val newPrefix: String,
    val operators: List<String>,
    val oldestRuntime: String,
)

/**
 * The ExecuTorch program with the methods `encode` and `decode_step`.
 *
 * @property program Name of its file.
 * @property inPlace Whether it has `decode_in_place` too, a step of one row whose changing state stays in the program.
 */
data class ExecuTorchEntry(val program: String, val inPlace: Boolean = false)
