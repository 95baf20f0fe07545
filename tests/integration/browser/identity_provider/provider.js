// A certified OpenID provider with people of ours: whoever types a name is logged in by that name.
import { Provider } from "oidc-provider";

// The pages of the provider are its own, for developers: any name and any password will do.
const { issuer, port, publicUrl, clientId, clientSecret, groups, algorithm, key } = JSON.parse(process.argv[2]);

const provider = new Provider(issuer, {
  clients: [{
    client_id: clientId,
    client_secret: clientSecret,
    redirect_uris: [`${publicUrl}/login/oidc/done`],
    post_logout_redirect_uris: [`${publicUrl}/login`],
    id_token_signed_response_alg: algorithm,
  }],
  jwks: { keys: [key] },
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  scopes: ["openid", "groups", "profile"],
  conformIdTokenClaims: false,
  cookies: { keys: ["tests"] },
  pkce: { required: () => true },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
  }),
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
