package dev.litenlp.app

import android.view.View
import android.view.ViewGroup
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.ScrollView
import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.search.SearchOptions
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import java.io.File

class BudgetScreenTest : MeasureTest() {
    private fun MainActivity.bar(card: Int): ProgressBar = findViewById<View>(card).findViewById(R.id.bar)

    private fun restartWith(change: (JSONObject) -> Unit) =
        restart(archives = mapOf("a.zip" to { TestBundles.zip(change = change).inputStream() }))

    @Test
    fun `the shipped model's figures stand against the limits`() {
        restart()
        val activity = launch(Screens.BUDGET).get()
        assertEquals("tatoeba-en-de · English → German", activity.text(R.id.budget_model))
        assertEquals("Within the budget for phones", activity.text(R.id.budget_verdict))
        assertEquals(
            "3.10 M parameters of at most 10 M, 96.0 M Mult-Adds of at most 500 M: the mobile setting of Lite Transformer (Wu et al., 2020).",
            activity.text(R.id.budget_verdict_text),
        )
        assertEquals(
            listOf(
                "Parameters",
                "3.10 M",
                "of 10 M",
                "31% of the limit, counted as the paper counts: without embedding tables. In all 4.63 M are stored, 1.54 M of them embeddings.",
            ),
            activity.shown(R.id.budget_parameters),
        )
        assertEquals(310, activity.bar(R.id.budget_parameters).progress)
        assertEquals(
            listOf(
                "Mult-Adds",
                "96.0 M",
                "of 500 M",
                "19% of the limit, for 30 to 30 tokens, counted as the paper counts: without the output layer. A device has to execute at least 142 M.",
            ),
            activity.shown(R.id.budget_macs),
        )
        assertEquals(192, activity.bar(R.id.budget_macs).progress)
        val said = activity.findViewById<View>(R.id.budget_macs).contentDescription.toString()
        assertTrue(said, said.startsWith("Mult-Adds: 96.0 M of 500 M, 19%"))
    }

    @Test
    fun `quality comes with its interval, size by what it is`() {
        restart()
        val activity = launch(Screens.BUDGET).get()
        assertEquals(
            listOf(
                "multi30k test2016",
                "BLEU 36.4\n95 % interval 34.7–37.8\nchrF 61.0",
                "tatoeba test",
                "BLEU 39.7\n95 % interval 38.2–41.3\nchrF 59.2",
            ),
            activity.shown(R.id.budget_scores),
        )
        val labels = activity.shown(R.id.budget_sizes).filterIndexed { index, _ -> index % 2 == 0 }
        assertEquals(
            listOf(
                "Bundle, as it came",
                "Installed on this device",
                "Of it, what ONNX Runtime loads",
                "Of it, what ExecuTorch loads",
            ),
            labels,
        )
    }

    @Test
    fun `the Mult-Adds of the very sentence are those that the graphs executed`() {
        restart()
        val activity = launch().get()
        activity.translateFirst("Where is the nearest train station?")
        activity.show(Screens.BUDGET)
        val bundle = services.models.selected!!.bundle
        val tokenizer = bundle.tokenizer()
        val source = tokenizer.encode("Where is the nearest train station?").size
        val target = tokenizer.encode("Wo ist der nächste Bahnhof?").size
        val work = GraphWork.of(bundle.manifest, "onnx")!!
        // By hand: one encoding of the source and its end mark, one step per token and one for the end.
        val capacity = 2 * source + 10
        val macs = work.encodeMacs(source + 1, capacity) + (target + 1) * work.stepMacs(source + 1, capacity)
        assertEquals("%.1f M".format(macs / 1e6), activity.text(R.id.budget_sentence))
        assertEquals(
            "Mult-Adds executed by ONNX Runtime for $source tokens in and $target tokens out: encoder, every decoder step, output layer, padding.",
            activity.text(R.id.budget_sentence_text),
        )
        assertTrue(activity.text(R.id.budget_speed), activity.text(R.id.budget_speed).endsWith(" GMAC/s"))
        assertTrue(activity.text(R.id.budget_speed_text).startsWith("Last translation: ONNX Runtime 1.0, "))
    }

    @Test
    fun `a typed text's Mult-Adds are foretold until it is translated`() {
        restart()
        services.translate.edit("Good morning!")
        val activity = launch(Screens.BUDGET).get()
        await("estimate") { activity.isShown(R.id.budget_sentence) }
        val bundle = services.models.selected!!.bundle
        val tokens = bundle.tokenizer().encode("Good morning!").size
        val capacity = SearchOptions().steps(tokens, bundle.manifest.bounds.capacity)
        val macs = GraphWork.of(bundle.manifest, "onnx")!!.macs(tokens + 1, capacity, tokens + 1)
        assertEquals("≈ %.1f M".format(macs / 1e6), activity.text(R.id.budget_sentence))
        assertEquals(
            "Mult-Adds expected for $tokens tokens, if the translation is as long. Translate it to count them.",
            activity.text(R.id.budget_sentence_text),
        )
        assertFalse(activity.isShown(R.id.budget_speed))
    }

    @Test
    fun `what is foretold is of the text as it will be translated`() {
        restart()
        services.translate.edit("I don\u2019t think it\u2019s fine.\n \t\nHello   world \t ")
        val activity = launch(Screens.BUDGET).get()
        await("estimate") { activity.isShown(R.id.budget_sentence) }
        val bundle = services.models.selected!!.bundle
        val tokens = listOf("I don't think it's fine.", "Hello world").map { bundle.tokenizer().encode(it).size }
        val macs = tokens.sumOf {
            GraphWork.of(bundle.manifest, "onnx")!!.macs(it + 1, SearchOptions().steps(it, bundle.manifest.bounds.capacity), it + 1)
        }
        assertEquals("≈ %.1f M".format(macs / 1e6), activity.text(R.id.budget_sentence))
        assertTrue(activity.text(R.id.budget_sentence_text).startsWith("Mult-Adds expected for ${tokens.sum()} tokens,"))
    }

    @Test
    fun `figures of another model do not stand under the selected one's name`() {
        val other = { TestBundles.zip(change = { it.getJSONObject("budget").put("target", "another") }).inputStream() }
        restart(archives = mapOf("a.zip" to { TestBundles.zip().inputStream() }, "b.zip" to other))
        val activity = launch().get()
        activity.translateFirst("Good morning!")
        services.measurements.measure(BenchmarkRequest(threads = listOf(1), warmup = 0, repeats = 1, sentences = 1))
        await("report") { services.measurements.report != null }
        activity.show(Screens.BUDGET)
        assertTrue(activity.text(R.id.budget_sentence_text).startsWith("Mult-Adds executed by ONNX Runtime"))
        assertTrue(activity.text(R.id.budget_speed_text), activity.text(R.id.budget_speed_text).lines().size == 2)
        services.models.select(services.models.models[1])
        assertEquals("of the same name", services.models.models[0].name, services.models.selected?.name)
        await("estimate") { activity.text(R.id.budget_sentence).startsWith("≈ ") }
        assertFalse(activity.isShown(R.id.budget_speed))
        assertEquals("Translate a text to see how fast this device computes.", activity.text(R.id.budget_speed_text))
        services.models.select(services.models.models[0])
        assertTrue(activity.text(R.id.budget_sentence_text).startsWith("Mult-Adds executed by ONNX Runtime"))
        assertTrue(activity.isShown(R.id.budget_speed))
    }

    @Test
    fun `what is foretold is of the runtime that will translate, whichever a person prefers`() {
        restartWith { it.put("onnx", JSONObject.NULL).getJSONObject("graphs").remove("onnx") }
        services.preferences.runtime = "onnx"
        services.translate.edit("Good morning!")
        val activity = launch(Screens.BUDGET).get()
        await("estimate") { activity.isShown(R.id.budget_sentence) }
        assertTrue(activity.text(R.id.budget_sentence_text).startsWith("Mult-Adds expected for "))
    }

    @Test
    fun `what is foretold follows how the model wants to be used`() {
        val decoding = JSONObject().put("length_penalty", 0.6).put("no_repeat_ngram", 0).put("min_length", 0)
            .put("max_length", 5).put("long_input", "truncate").put("max_source_tokens", 8)
        restartWith { it.put("decoding", decoding) }
        services.translate.edit("Where is the nearest train station? The children are playing in the garden.")
        val activity = launch(Screens.BUDGET).get()
        await("estimate") { activity.isShown(R.id.budget_sentence) }
        // Of the text 8 tokens are read, and of the output there are 5 and the end mark.
        val macs = GraphWork.of(services.models.selected!!.bundle.manifest, "onnx")!!.macs(8 + 1, 5 + 1, 5 + 1)
        assertEquals("≈ %.1f M".format(macs / 1e6), activity.text(R.id.budget_sentence))
        assertTrue(activity.text(R.id.budget_sentence_text).startsWith("Mult-Adds expected for 8 tokens,"))
    }

    @Test
    fun `without a text there is a hint`() {
        restart()
        val activity = launch(Screens.BUDGET).get()
        assertEquals("Translate a text: its own Mult-Adds will stand here.", activity.text(R.id.budget_sentence_text))
        assertEquals("Translate a text to see how fast this device computes.", activity.text(R.id.budget_speed_text))
    }

    @Test
    fun `broken characters have a sentence here too`() {
        restart()
        services.translate.edit("Good \uD83D morning")
        val activity = launch(Screens.BUDGET).get()
        await("sentence") { activity.text(R.id.budget_sentence_text).isNotEmpty() }
        assertEquals("The text contains broken characters. Copy it again or retype it.", activity.text(R.id.budget_sentence_text))
    }

    @Test
    fun `a model beyond the limits is called so`() {
        restartWith { it.getJSONObject("budget").getJSONObject("params").put("paper", 12_500_000) }
        val activity = launch(Screens.BUDGET).get()
        assertEquals("Beyond the budget for phones", activity.text(R.id.budget_verdict))
        val bar = activity.bar(R.id.budget_parameters)
        assertEquals(bar.max, bar.progress)
        assertEquals(activity.getColor(R.color.error), bar.progressTintList!!.defaultColor)
    }

    @Test
    fun `a model that says nothing about itself is shown without figures`() {
        restartWith {
            for (key in listOf("budget", "graphs", "scores")) it.put(key, JSONObject())
        }
        services.translate.edit("Good morning!")
        val activity = launch(Screens.BUDGET).get()
        assertEquals(
            "This model does not say what it costs. Export it again with a newer lite-nlp.",
            activity.text(R.id.budget_verdict_text),
        )
        assertFalse(activity.isShown(R.id.budget_verdict))
        assertFalse(activity.isShown(R.id.budget_parameters))
        assertEquals("This model does not record the work of its graphs.", activity.text(R.id.budget_sentence_text))
        assertEquals("This model does not say how good it is.", activity.shown(R.id.budget_scores).single())
    }

    @Test
    fun `without a model the screen is empty and nothing fails`() {
        restart(archives = emptyMap())
        val activity = launch(Screens.BUDGET).get()
        assertFalse(activity.isShown(R.id.budget_verdict_card))
    }

    @Test
    fun `a rotation keeps the figures`() {
        restart()
        val controller = launch()
        controller.get().translateFirst("Good morning!")
        controller.get().show(Screens.BUDGET)
        val before = controller.get().text(R.id.budget_sentence)
        val after = controller.rotate()
        assertEquals(Screens.BUDGET, after.shown)
        assertEquals(before, after.text(R.id.budget_sentence))
    }

    @Test
    fun `German says the same with its own numbers`() {
        RuntimeEnvironment.setQualifiers("+de")
        restart()
        val activity = launch(Screens.BUDGET).get()
        assertEquals("Im Budget für Telefone", activity.text(R.id.budget_verdict))
        assertEquals(listOf("Parameter", "3,10 Mio.", "von 10 Mio."), activity.shown(R.id.budget_parameters).take(3))
        val scores = activity.findViewById<LinearLayout>(R.id.budget_scores)
        assertTrue("${shownTexts(scores)}", "BLEU 39,7\n95-%-Intervall 38,2–41,3\nchrF 59,2" in shownTexts(scores))
    }

    @Test
    @Config(qualifiers = "w360dp-h800dp-hdpi")
    fun picture() {
        // The bundle that ships, where the build has made it: its sizes are to be seen.
        val bundle = System.getProperty("litenlp.bundle")?.let(::File)
        val archives = mapOf("tatoeba-en-de.zip" to { bundle?.inputStream() ?: TestBundles.zip().inputStream() })
        restart(listOf(Unhurried(onnx, 4), executorch), archives)
        val activity = launch().get()
        activity.translateFirst("Where is the nearest train station?")
        activity.show(Screens.BUDGET)
        idle()
        Screenshots.draw(activity, "budget")
        RuntimeEnvironment.setQualifiers("+de-night")
        val german = launch(Screens.BUDGET).get()
        idle()
        (german.findViewById<ViewGroup>(R.id.content).getChildAt(0) as ScrollView).scrollTo(0, 100_000)
        Screenshots.draw(german, "budget-dark-german")
    }
}
