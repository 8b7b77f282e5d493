//! Outputs that are more than text: images, audio, resources, and several of them in one result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};

use crate::error::ToolError;
use crate::output::ToolOutput;

/// One piece of a result: text, [`Image`], [`Audio`], a resource ([`ResourceContents`] embeds it, [`Resource`] links to
/// it), or any [`ContentBlock`].
///
/// A piece alone is a whole output, and so is a tuple of up to six pieces:
///
/// ```
/// use sluicegate_mcp::{Image, ResourceContents, ToolOutput};
///
/// let chart: &[u8] = b"\x89PNG";
/// let output = ("Sales of March", Image::png(chart), ResourceContents::text("a,b\n1,2", "report://march.csv"));
/// assert_eq!(output.into_result().unwrap().content.len(), 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a piece of a tool's result",
    label = "not `Content`",
    note = "text, `Image`, `Audio`, `ResourceContents`, `Resource` and `ContentBlock` can; structured content is `Json(…)` alone"
)]
pub trait Content {
    /// The block that is sent.
    fn into_block(self) -> ContentBlock;
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    base64: String,
    mime_type: String,
}

impl Image {
    /// A picture of any format, such as `image/webp`.
    pub fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self { base64: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// A PNG.
    pub fn png(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(bytes, "image/png")
    }

    /// A JPEG.
    pub fn jpeg(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(bytes, "image/jpeg")
    }
}

/// Sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    base64: String,
    mime_type: String,
}

impl Audio {
    /// Sound of any format, such as `audio/ogg`.
    pub fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self { base64: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// A WAV.
    pub fn wav(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(bytes, "audio/wav")
    }
}

impl Content for Image {
    fn into_block(self) -> ContentBlock {
        ContentBlock::image(self.base64, self.mime_type)
    }
}

impl Content for Audio {
    fn into_block(self) -> ContentBlock {
        ContentBlock::audio(self.base64, self.mime_type)
    }
}

/// Embedded: the resource travels in the result.
impl Content for ResourceContents {
    fn into_block(self) -> ContentBlock {
        ContentBlock::resource(self)
    }
}

/// Linked: the client reads the resource when it wants it.
impl Content for Resource {
    fn into_block(self) -> ContentBlock {
        ContentBlock::resource_link(self)
    }
}

impl Content for ContentBlock {
    fn into_block(self) -> ContentBlock {
        self
    }
}

impl Content for String {
    fn into_block(self) -> ContentBlock {
        ContentBlock::text(self)
    }
}

impl Content for &'static str {
    fn into_block(self) -> ContentBlock {
        ContentBlock::text(self)
    }
}

/// Pieces that are an output on their own.
macro_rules! alone {
    ($($piece:ty)*) => {$(
        impl ToolOutput for $piece {
            fn into_result(self) -> Result<CallToolResult, ToolError> {
                Ok(CallToolResult::success(vec![self.into_block()]))
            }
        }
    )*};
}

alone!(Image Audio ResourceContents Resource);

/// Tuples of pieces.
macro_rules! together {
    ($($piece:ident)+) => {
        impl<$($piece: Content),+> ToolOutput for ($($piece,)+) {
            fn into_result(self) -> Result<CallToolResult, ToolError> {
                #[expect(non_snake_case, reason = "a value is named like its type")]
                let ($($piece,)+) = self;
                Ok(CallToolResult::success(vec![$($piece.into_block()),+]))
            }
        }
    };
}

together!(A B);
together!(A B C);
together!(A B C D);
together!(A B C D E);
together!(A B C D E F);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(output: impl ToolOutput) -> serde_json::Value {
        serde_json::to_value(output.into_result().expect("a result").content).expect("JSON")
    }

    #[test]
    fn pictures_and_sound_are_sent_as_base64() {
        assert_eq!(
            sent(Image::png(b"\x89PNG")),
            json!([{ "type": "image", "data": "iVBORw==", "mimeType": "image/png" }])
        );
        assert_eq!(
            sent(Audio::wav(b"RIFF")),
            json!([{ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" }])
        );
    }

    #[test]
    fn a_tuple_keeps_its_order() {
        let link = Resource::new("report://march", "march");
        let content = sent(("see", ResourceContents::text("a,b", "report://march.csv"), link));
        let kinds: Vec<_> = content.as_array().expect("blocks").iter().map(|block| block["type"].clone()).collect();
        assert_eq!(kinds, ["text", "resource", "resource_link"]);
    }
}
