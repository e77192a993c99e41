//! `sockeye token --uid NAME …`: prints a token.

use super::{load, now};
use crate::config::{Auth, parse_duration};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use identity::Settings;
use identity::issue::SigningKey;
use process::files;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Default, Args)]
pub struct MakeArgs {
    /// Name of the user that the token is for.
    #[arg(long, value_name = "NAME")]
    uid: Option<String>,
    /// Rooms that the client is put into, separated by commas.
    #[arg(long, value_name = "ROOMS", value_delimiter = ',')]
    rooms: Vec<String>,
    /// `join:ROOM` or `publish:ROOM`, `*` for every room; may be given several times.
    #[arg(long, value_name = "WORD")]
    permission: Vec<String>,
    /// How long it is good for, such as `1h` or `10m`; `never` for one without end.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    expires: String,
    /// Shared secret to sign with; without it or one of the next two that of the configuration.
    #[arg(long, value_name = "TEXT", group = "signer")]
    secret: Option<String>,
    /// The same from a file.
    #[arg(long, value_name = "FILE", group = "signer")]
    secret_file: Option<PathBuf>,
    /// Private key in PEM (PKCS#8) to sign with.
    #[arg(long, value_name = "FILE", group = "signer")]
    key: Option<PathBuf>,
    /// Name of the key.
    #[arg(long, value_name = "NAME")]
    kid: Option<String>,
    /// A claim as `name=JSON` (or `name=text`); wins over all others; may be given several times.
    #[arg(long, value_name = "NAME=JSON")]
    claim: Vec<String>,
    /// TOML file; without it `sockeye.toml` of the working directory, if there is one.
    #[arg(long, value_name = "FILE", env = "SOCKEYE_CONFIG")]
    config: Option<PathBuf>,
    /// Print the claims too, as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &MakeArgs) -> Result<ExitCode> {
    let auth = load(args.config.as_ref())?.auth;
    let settings = auth.verifier.clone().unwrap_or_default();
    let key = signing_key(args, &auth)?;
    let claims = claims(args, &settings)?;
    let token = key.sign(args.kid.as_deref(), &claims);
    let token = token
        .map_err(anyhow::Error::msg)
        .context("cannot sign the token")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let alg = format!("{:?}", key.algorithm());
        let all = serde_json::json!({ "token": token, "alg": alg, "claims": claims });
        writeln!(out, "{all:#}")?;
    } else {
        writeln!(out, "{token}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Signs tokens for users, as `--secret` or `--secret-file` and the names of the configuration say.
pub struct Signer {
    args: MakeArgs,
    settings: Settings,
    key: SigningKey,
}

impl Signer {
    pub fn new(secret: Option<String>, secret_file: Option<PathBuf>) -> Result<Self> {
        let args = MakeArgs {
            secret,
            secret_file,
            expires: "1h".to_owned(),
            ..MakeArgs::default()
        };
        let auth = load(None)?.auth;
        Ok(Self {
            settings: auth.verifier.clone().unwrap_or_default(),
            key: signing_key(&args, &auth)?,
            args,
        })
    }

    pub fn token(&mut self, user: &str) -> Result<String, String> {
        self.args.uid = Some(user.to_owned());
        let claims = claims(&self.args, &self.settings).map_err(|error| format!("{error:#}"))?;
        self.key.sign(None, &claims)
    }
}

fn signing_key(args: &MakeArgs, auth: &Auth) -> Result<SigningKey> {
    if let Some(path) = &args.key {
        return SigningKey::from_pem(&read(path)?)
            .map_err(|why| anyhow!("cannot sign with {}: {why}", path.display()));
    }
    let configured = auth.verifier.as_ref();
    let file = match &args.secret_file {
        None if args.secret.is_none() => configured.and_then(|auth| auth.secret_file.clone()),
        given => given.clone(),
    };
    let inline = match &args.secret {
        None if args.secret_file.is_none() => configured
            .and_then(|auth| auth.secret.as_ref())
            .map(|secret| secret.reveal().to_owned()),
        given => given.clone(),
    };
    let secret = match (inline, file) {
        (Some(secret), _) => secret,
        (None, Some(path)) => read(&path)?.trim_end_matches(['\r', '\n']).to_owned(),
        (None, None) => bail!(
            "cannot sign a token: give --secret, --secret-file or --key, or set auth.secret in the configuration"
        ),
    };
    SigningKey::from_secret(&secret)
        .map_err(anyhow::Error::msg)
        .context("cannot sign a token")
}

fn read(path: &Path) -> Result<String> {
    let text = files::text(path, files::BYTES_MAX);
    text.with_context(|| format!("cannot read {}", path.display()))
}

/// What the token says, under the names that the configuration gives to its claims.
fn claims(args: &MakeArgs, settings: &Settings) -> Result<Map<String, Value>> {
    let mut claims = Map::new();
    let now_s = now().as_secs();
    claims.insert("iat".to_owned(), now_s.into());
    if let Some(time) = lifetime(&args.expires)? {
        let expires_s = now_s.saturating_add(time.as_secs());
        claims.insert("exp".to_owned(), expires_s.into());
    }
    if let Some(issuer) = settings.issuer.first() {
        claims.insert("iss".to_owned(), issuer.as_str().into());
    }
    if let Some(audience) = settings.audience.first() {
        claims.insert("aud".to_owned(), audience.as_str().into());
    }
    if let Some(uid) = &args.uid {
        place(&mut claims, &settings.uid_claim, uid.as_str().into());
    }
    for (name, words) in [
        (&settings.rooms_claim, &args.rooms),
        (&settings.permissions_claim, &args.permission),
    ] {
        if !words.is_empty() {
            place(&mut claims, name, words.clone().into());
        }
    }
    for given in &args.claim {
        let Some((name, text)) = given.split_once('=') else {
            bail!("cannot use --claim {given:?}: a name, `=` and JSON are needed");
        };
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        place(&mut claims, name, value);
    }
    Ok(claims)
}

fn lifetime(text: &str) -> Result<Option<Duration>> {
    match (text, parse_duration(text)) {
        ("never", _) => Ok(None),
        (_, Some(time)) => Ok(Some(time)),
        (_, None) => {
            bail!("cannot use --expires {text:?}: a time such as \"1h\", or \"never\", is needed")
        }
    }
}

/// Sets a claim by name or by JSON pointer, making the objects on the way.
fn place(claims: &mut Map<String, Value>, name: &str, value: Value) {
    let Some(pointer) = name.strip_prefix('/') else {
        claims.insert(name.to_owned(), value);
        return;
    };
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let mut parts: Vec<String> = pointer.split('/').map(unescape).collect();
    let last = parts.pop().unwrap_or_default();
    let mut object = claims;
    for part in parts {
        let below = object.entry(part).or_insert_with(|| Map::new().into());
        if !below.is_object() {
            *below = Map::new().into();
        }
        let Value::Object(inner) = below else { return };
        object = inner;
    }
    object.insert(last, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_are_placed_by_name_or_by_pointer() {
        let mut claims = Map::new();
        place(&mut claims, "sub", "ada".into());
        place(&mut claims, "/user/id", 5.into());
        place(&mut claims, "/user/a~1b", 6.into());
        place(&mut claims, "https://example.org/x", 7.into());
        let wanted = json!({
            "sub": "ada", "user": { "id": 5, "a/b": 6 }, "https://example.org/x": 7,
        });
        assert_eq!(Value::Object(claims), wanted);
    }

    #[test]
    fn a_lifetime_needs_a_unit() {
        assert_eq!(
            lifetime("10m").expect("time"),
            Some(Duration::from_secs(600))
        );
        assert_eq!(lifetime("never").expect("none"), None);
        assert!(lifetime("3600").is_err());
    }
}
