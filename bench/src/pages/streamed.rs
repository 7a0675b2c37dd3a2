//! A reply in Markdown that arrives at 2,500 fragments per second.

use anyhow::Result;
use thirtyfour::prelude::*;

use super::{PageFigures, Pages, first_paint, longest, number, signed_in, until};
use crate::http::served::Process;

const MODEL: &str = "openai-chat/markdown-12000-delay400us";

/// Script that counts fragments as they arrive, frames, and redraws of the conversation.
const COUNT: &str = r#"
    window.count = { frames: 0, drawn: 0, tasks: [], heard: 0, first: 0, last: 0 };
    const real = window.fetch;
    window.fetch = async (place, options) => {
        const answer = await real(place, options);
        if (!String(place).includes('/stream')) return answer;
        const text = new TextDecoder();
        const heard = new TransformStream({ transform(piece, onwards) {
            const some = text.decode(piece, { stream: true }).split('"message.delta"').length - 1;
            const now = performance.now();
            if (some > 0) Object.assign(window.count, { first: window.count.first || now, last: now, heard: window.count.heard + some });
            onwards.enqueue(piece);
        } });
        return new Response(answer.body.pipeThrough(heard), answer);
    };
    new PerformanceObserver((list) => list.getEntries().forEach((one) => window.count.tasks.push(one.duration)))
        .observe({ type: 'longtask', buffered: false });
    new MutationObserver(() => (window.count.drawn += 1)).observe(document.body, { subtree: true, childList: true, characterData: true });
    const frame = () => {
        window.count.frames += 1;
        requestAnimationFrame(frame);
    };
    frame();"#;

/// Script that returns the counts once the reply is complete.
const ENDED: &str =
    "return document.querySelectorAll('.entry.assistant[data-status=complete]').length > 0 && window.count";

pub(super) async fn measure(pages: &Pages, figures: &mut PageFigures) -> Result<()> {
    let folder = pages.folder.join("streamed");
    let process = Process::start(&pages.binary, &folder, &pages.base_url, MODEL).await?;
    let page = signed_in(&process).await?;
    figures.first_paint_ms = first_paint(&page).await?;
    page.driver.execute(COUNT, vec![]).await?;
    let composer = page.driver.find(By::Css("[data-key=composer]")).await?;
    composer.send_keys("Continue.").await?;
    composer.send_keys(Key::Enter + "").await?;
    let count = until(&page, ENDED).await?;
    let seconds = (number(&count, "last")? - number(&count, "first")?) / 1e3;
    figures.fragments_per_s = number(&count, "heard")? / seconds;
    figures.stream_task_ms = longest(&count);
    figures.drawn_per_frame = number(&count, "drawn")? / number(&count, "frames")?;
    page.quit().await?;
    process.end().await
}
